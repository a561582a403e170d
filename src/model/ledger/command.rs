//! What the control log is made of: commands with everything decided, applied by a pure function.

use serde::{Deserialize, Serialize};

use crate::model::ids::{
    BlockId, Coordinates, EventId, KeyId, LedgerEpoch, LogIndex, NodeId, NodeRun, TicketId, Weight,
};
use crate::model::numbered::{EdgeName, Instance};
use crate::model::order::{BucketStart, OrderKey};
use crate::model::policy::{Fields, Submission};
use crate::model::time::FleetTime;

/// One entry of the control log. Applying an entry twice changes nothing the second time, unless it says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Founds the ledger; ignored by a ledger that is founded.
    Found {
        /// A new random number.
        epoch: LedgerEpoch,
        /// The founder's wall clock.
        now: FleetTime,
        /// The first signing key.
        key: KeyRecord,
    },
    /// Registers a run of a node, before it is sent a live set; refused if the run is not newer than the known one.
    Register {
        /// Who registers.
        run: NodeRun,
        /// When.
        now: FleetTime,
    },
    /// Gives an edge a number, before it is told; one that has a number keeps it.
    Number {
        /// When.
        now: FleetTime,
        /// What its certificate calls it.
        name: EdgeName,
        /// The edge.
        instance: Instance,
    },
    /// A leader begins, before it says anything: its clock may be ahead of the log's.
    Lead {
        /// Fleet time as it begins.
        now: FleetTime,
        /// What everybody is forgiven, if nobody could be heard before.
        absence: Option<Span>,
    },
    /// What one tick of the leader changes; nothing is proposed when nothing changes.
    Tick(Tick),
    /// An operator's or a file's change to an event.
    Change(Change),
    /// A new signing key; it signs once every registered edge has acknowledged this entry or 60 s have passed.
    RotateKey {
        /// When.
        now: FleetTime,
        /// The new key.
        key: KeyRecord,
    },
    /// Several commands in one entry: one write to disk for many proposals (group commit).
    Batch(Vec<Command>),
}

impl Command {
    /// Says when it is: whoever proposes a change knows only a clock of its own, which may be wrong, and time in the
    /// ledger never goes back.
    pub fn set_time(&mut self, time: FleetTime) {
        match self {
            Self::Found { .. } | Self::Register { .. } | Self::Lead { .. } => {}
            Self::Number { now, .. } => *now = time,
            Self::Tick(tick) => tick.now = time,
            Self::Change(change) => change.now = time,
            Self::RotateKey { now, key } => {
                *now = time;
                key.made_at = time;
                key.signs_from = time;
            }
            Self::Batch(commands) => commands.iter_mut().for_each(|command| command.set_time(time)),
        }
    }
}

/// A signing key as the log keeps it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    /// Its id.
    pub id: KeyId,
    /// 32 random bytes. Never shown, logged or counted.
    pub secret: [u8; 32],
    /// When it was made.
    pub made_at: FleetTime,
    /// From when it may sign: until then the older one signs. Set by `apply`.
    pub signs_from: FleetTime,
    /// Until when its tokens are accepted; `None`: it is the newest. Set by `apply`.
    pub verifies_until: Option<FleetTime>,
}

impl std::fmt::Debug for KeyRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyRecord").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What one tick changes, in all events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// Fleet time of the tick.
    pub now: FleetTime,
    /// The log index that every registered edge has acknowledged: sessions that ended up to it give their slots back.
    pub acknowledged: LogIndex,
    /// When each run was last heard, for runs whose committed time is over a minute old.
    pub heard: Vec<(NodeRun, FleetTime)>,
    /// Runs that ended cleanly, with every grant closed and the outbox flushed.
    pub ended: Vec<NodeRun>,
    /// Spans in which nobody could be expected to send a heartbeat.
    pub spans: Vec<Span>,
    /// The events in which something happened.
    pub events: Vec<EventTick>,
}

impl Tick {
    /// Whether the tick changes nothing, and is not worth an entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heard.is_empty() && self.ended.is_empty() && self.spans.is_empty() && self.events.is_empty()
    }
}

/// A time in which a node, or the whole fleet, could not be reached: no ticket ends because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The node; `None`: all.
    pub node: Option<NodeId>,
    /// From when.
    pub from: FleetTime,
    /// Until when.
    pub to: FleetTime,
}

/// What one tick changes in one event. `apply` works through it in the order of the fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventTick {
    /// The event.
    pub event: EventId,
    /// What edges did with their grants.
    pub settle: Vec<Settle>,
    /// First uses and renewals.
    pub extend: Vec<Extend>,
    /// Sessions and tickets that end before their time.
    pub revoke: Vec<Revoke>,
    /// Slots of this tenure's blocks that were never handed to any run.
    pub returned: Vec<Returned>,
    /// Rows that changed.
    pub rows: Vec<Row>,
    /// Runs whose rows have been replaced by a newer run's full windows, or whose tickets have all expired.
    pub drop_rows: Vec<NodeRun>,
    /// The bucket that joins are keyed by from its start on; `Some(None)`: none, since nobody waits.
    pub bucket: Option<Option<BucketStart>>,
    /// The new watermark; an older one changes nothing.
    pub watermark: OrderKey,
    /// Whether the lottery's bucket has closed at every edge: its order is made from the rows that stand now.
    pub draw_lottery: bool,
    /// How many of the operator's extra calls the watermark has served.
    pub admitted: u32,
    /// The gate of the event, where it changed.
    pub gate: Option<Gate>,
    /// How many slots to reserve; `apply` reserves no more than capacity and rate credit allow.
    pub reserve: u32,
}

impl EventTick {
    /// A tick that changes nothing, to be filled in.
    #[must_use]
    pub fn nothing(event: EventId) -> Self {
        Self {
            event,
            settle: Vec::new(),
            extend: Vec::new(),
            revoke: Vec::new(),
            returned: Vec::new(),
            rows: Vec::new(),
            drop_rows: Vec::new(),
            bucket: None,
            watermark: OrderKey::default(),
            draw_lottery: false,
            admitted: 0,
            gate: None,
            reserve: 0,
        }
    }
}

/// The end of a ticket, and of the session that it turned into, before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Revoke {
    /// The ticket, which is the pass.
    pub id: TicketId,
    /// Who wants it.
    pub why: RevokeReason,
}

/// Why a ticket or session ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RevokeReason {
    /// The visitor left.
    Left,
    /// The operator or the origin ended it.
    Ended,
    /// The pass was given on the spot and not presented in time; one in use by now stays.
    Unpresented,
}

/// Slots of a block that the leader gives back itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// The block.
    pub block: BlockId,
    /// How many slots of it were never handed out.
    pub slots: u32,
}

/// Whether newcomers may be admitted at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// Nobody waits: express.
    #[default]
    Open,
    /// Everybody who waits is about to be called: newcomers are held for a moment, at most 1 s.
    Reopening,
    /// There is a line: newcomers join it.
    Queue,
}

/// What a run reports of the slots of one block, as state: applying it twice changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settle {
    /// The block.
    pub block: BlockId,
    /// Who was given slots of it.
    pub run: NodeRun,
    /// The passes minted from them and not yet acknowledged.
    pub mints: Vec<Mint>,
    /// Once the run spends no more of this block: how many slots it was given in all.
    pub closed: Option<u32>,
}

/// One pass minted against a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mint {
    /// Which of the run's slots of that block, from 1.
    pub number: u32,
    /// The pass.
    pub pass: TicketId,
    /// When it ends if it is not used.
    pub expires: FleetTime,
    /// The slots that it takes.
    pub weight: Weight,
}

/// A first use or a renewal of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extend {
    /// The pass.
    pub pass: TicketId,
    /// Where it was minted.
    pub at: Coordinates,
    /// When it ends if it is not used, as its token says: a pass past it is refused.
    pub expires: FleetTime,
    /// The slots that it takes.
    pub weight: Weight,
}

/// What one run knows of one bucket, as the log keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Whose count.
    pub run: NodeRun,
    /// The bucket; for `random` the whole part of the clock.
    pub bucket: BucketStart,
    /// Tickets keyed by this run into this bucket.
    pub joined: u32,
    /// Tickets of this bucket that wait, uncalled, as last seen by this run.
    pub alive: u32,
}

/// A change to one event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// When.
    pub now: FleetTime,
    /// The event.
    pub event: EventId,
    /// What must hold of the event, or the change is refused.
    pub condition: Condition,
    /// Random bytes for secrets that the change may need (draw secret, lottery seed).
    pub entropy: [u8; 32],
    /// What to change.
    pub kind: ChangeKind,
}

/// What must hold of an event for a change to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// Nothing.
    #[default]
    Always,
    /// Its version (ETag) is still the one that the asker has seen.
    Version(u64),
    /// It exists.
    Exists,
    /// There is no event of this id.
    Absent,
}

/// The kinds of change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ChangeKind {
    /// Sets these fields and keeps the others; creates the event if it does not exist.
    Put(Fields),
    /// Sets these fields of an event that exists.
    Patch(Fields),
    /// Fields as a file states them, merged three ways (design §8).
    Submit(Submission),
    /// Ends a session, or consumes a ticket that has none.
    EndPass(TicketId),
    /// Removes the event; its passes end.
    Delete,
    /// A new line epoch: tickets answer 410 `reset`, live passes stay.
    Reset,
    /// Moves the watermark so that about this many more are called; slots and rate still hold.
    Admit(u32),
}
