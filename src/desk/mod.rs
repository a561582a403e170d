//! What an edge knows: the one place where adapters meet.

mod answers;
mod control_port;

pub use answers::{
    Activity, Attendance, EndReason, ExpressAnswer, ExpressKind, IssuedPass, JoinAnswer, PassAnswer, Phase,
    RenewalUrgency, StatusAnswer, Turn, Waiting,
};
pub use control_port::{ChangeOutcome, Changed, ControlError, ControlPort};
