//! An edge's decisions: what a pass is worth, what a ticket comes to, whether a newcomer is let in at once.
//!
//! Pure: the desk and the fault simulation drive this same code.

mod contact;
mod express;
mod honour;
mod judge;
mod told;

pub use contact::{Contact, Link};
pub use express::{ExpressRecord, ExpressRoom, ON_THE_SPOT_LIFE, may_go_on_the_spot};
pub use honour::{Honour, Provenance, honour};
pub use judge::{Holding, Judgement, Scene, TurnClock, judge, turn};
pub use told::{Ending, Phase};
