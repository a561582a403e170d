//! The network between the nodes: streams in memory that are slow, stall, break, or lead nowhere, by the seed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use anteroom::model::ids::NodeId;
use anteroom::peer::{Address, Stream, Way};
use async_trait::async_trait;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// What a stream takes before its writer has to wait, in bytes.
const BUFFER: usize = 256 << 10;

/// What one direction of one stream carries.
#[derive(Debug)]
struct Pipe {
    from: u16,
    to: u16,
    /// Pieces with the times of their arrival.
    flying: VecDeque<(u64, Vec<u8>)>,
    arrived: VecDeque<u8>,
    in_all: usize,
    /// When the writer's goodbye arrives.
    ends: Option<u64>,
    over: bool,
    /// The connection is no more: the reader and the writer are told so.
    broken: bool,
    /// An end is on a machine that lost power: nobody tells the other one.
    silent: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn new(from: u16, to: u16) -> Shared {
        Arc::new(Mutex::new(Self {
            from,
            to,
            flying: VecDeque::new(),
            arrived: VecDeque::new(),
            in_all: 0,
            ends: None,
            over: false,
            broken: false,
            silent: false,
            reader: None,
            writer: None,
        }))
    }

    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }

    fn deliver(&mut self, now: u64) {
        let mut news = false;
        while self.flying.front().is_some_and(|(due, _)| *due <= now) {
            let (_, piece) = self.flying.pop_front().unwrap();
            self.arrived.extend(piece);
            news = true;
        }
        if self.flying.is_empty() && self.ends.is_some_and(|due| due <= now) && !self.over {
            self.over = true;
            news = true;
        }
        if news {
            self.reader.take().into_iter().for_each(Waker::wake);
        }
    }
}

type Shared = Arc<Mutex<Pipe>>;

/// One end of a stream.
struct End {
    net: Net,
    hears: Shared,
    says: Shared,
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut pipe = self.hears.lock().unwrap();
        if !pipe.arrived.is_empty() {
            let count = buffer.remaining().min(pipe.arrived.len());
            let bytes: Vec<u8> = pipe.arrived.drain(..count).collect();
            buffer.put_slice(&bytes);
            pipe.in_all -= count;
            pipe.writer.take().into_iter().for_each(Waker::wake);
            return Poll::Ready(Ok(()));
        }
        if pipe.broken {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if pipe.over {
            return Poll::Ready(Ok(()));
        }
        pipe.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let (from, to) = {
            let mut pipe = self.says.lock().unwrap();
            if pipe.broken {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            if pipe.in_all >= BUFFER {
                pipe.writer = Some(cx.waker().clone());
                return Poll::Pending;
            }
            (pipe.from, pipe.to)
        };
        let due = self.net.lock().arrival(from, to);
        let mut pipe = self.says.lock().unwrap();
        let due = pipe.flying.back().map_or(due, |(before, _)| due.max(*before));
        pipe.in_all += bytes.len();
        pipe.flying.push_back((due, bytes.to_vec()));
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let (from, to) = {
            let pipe = self.says.lock().unwrap();
            if pipe.silent {
                return;
            }
            (pipe.from, pipe.to)
        };
        let due = self.net.lock().arrival(from, to);
        let mut says = self.says.lock().unwrap();
        says.ends.get_or_insert(due);
        let mut hears = self.hears.lock().unwrap();
        hears.broken = true;
        hears.wake();
    }
}

/// What a way between two nodes is like, in one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// The least that anything takes, in milliseconds.
    pub(crate) least: u64,
    /// And the most, while nothing is lost.
    pub(crate) most: u64,
    /// How often a piece is lost and sent again, which takes 200 ms and more.
    pub(crate) loss: f64,
}

impl Link {
    /// A way within a region.
    pub(crate) const NEAR: Self = Self { least: 1, most: 15, loss: 0.0 };
}

/// A call that waits to be taken.
struct Call {
    from: u16,
    to: u16,
    due: u64,
    answered: oneshot::Sender<io::Result<Box<dyn Stream>>>,
}

/// Takes callers in: the stream, and which node it is from.
type Listener = Box<dyn Fn(Box<dyn Stream>, u16) + Send>;

pub(crate) struct Wires {
    now: u64,
    dice: SmallRng,
    /// What ways are like that nothing else is said of.
    usual: Link,
    links: BTreeMap<(u16, u16), Link>,
    cut: BTreeSet<(u16, u16)>,
    /// Machines without power, which answer nothing.
    dark: BTreeSet<u16>,
    listeners: BTreeMap<u16, Listener>,
    pipes: Vec<Shared>,
    calls: Vec<Call>,
}

impl Wires {
    fn arrival(&mut self, from: u16, to: u16) -> u64 {
        let link = self.links.get(&(from, to)).copied().unwrap_or(self.usual);
        let mut takes = self.dice.random_range(link.least..=link.most);
        while self.dice.random_bool(link.loss) {
            takes += self.dice.random_range(200..400);
        }
        self.now + takes
    }

    fn is_cut(&self, from: u16, to: u16) -> bool {
        self.cut.contains(&(from, to))
    }
}

/// The network; clones are the same one.
#[derive(Clone)]
pub(crate) struct Net(Arc<Mutex<Wires>>);

impl Net {
    pub(crate) fn new(seed: u64, usual: Link) -> Self {
        Self(Arc::new(Mutex::new(Wires {
            now: 0,
            dice: SmallRng::seed_from_u64(seed),
            usual,
            links: BTreeMap::new(),
            cut: BTreeSet::new(),
            dark: BTreeSet::new(),
            listeners: BTreeMap::new(),
            pipes: Vec::new(),
            calls: Vec::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Wires> {
        self.0.lock().unwrap()
    }

    /// How a node calls others.
    pub(crate) fn way(&self, from: u16) -> Wire {
        Wire { net: self.clone(), from }
    }

    /// A node listens from now on; what it had open before is known to be over.
    pub(crate) fn listen(&self, node: u16, listener: impl Fn(Box<dyn Stream>, u16) + Send + 'static) {
        let mut wires = self.lock();
        wires.dark.remove(&node);
        wires.listeners.insert(node, Box::new(listener));
        for pipe in &wires.pipes {
            let mut pipe = pipe.lock().unwrap();
            if pipe.silent && (pipe.from == node || pipe.to == node) {
                pipe.broken = true;
                pipe.wake();
            }
        }
    }

    /// A process is about to end; its machine says so to whoever is connected.
    pub(crate) fn close(&self, node: u16) {
        self.lock().listeners.remove(&node);
    }

    /// A machine is about to lose power: nobody is told anything.
    pub(crate) fn darken(&self, node: u16) {
        let mut wires = self.lock();
        wires.listeners.remove(&node);
        wires.dark.insert(node);
        for pipe in &wires.pipes {
            let mut pipe = pipe.lock().unwrap();
            pipe.silent |= pipe.from == node || pipe.to == node;
        }
    }

    pub(crate) fn set_link(&self, from: u16, to: u16, link: Link) {
        self.lock().links.insert((from, to), link);
    }

    pub(crate) fn cut(&self, from: u16, to: u16) {
        self.lock().cut.insert((from, to));
    }

    pub(crate) fn mend(&self, from: u16, to: u16) {
        self.lock().cut.remove(&(from, to));
    }

    pub(crate) fn is_whole(&self, a: u16, b: u16) -> bool {
        let wires = self.lock();
        !wires.is_cut(a, b) && !wires.is_cut(b, a)
    }

    /// Breaks every stream between two nodes, as a firewall that forgets does.
    pub(crate) fn reset(&self, a: u16, b: u16) {
        for pipe in &self.lock().pipes {
            let mut pipe = pipe.lock().unwrap();
            if (pipe.from, pipe.to) == (a, b) || (pipe.from, pipe.to) == (b, a) {
                pipe.broken = true;
                pipe.wake();
            }
        }
    }

    /// Delivers what is due.
    pub(crate) fn step(&self, now: u64) {
        let mut wires = self.lock();
        wires.now = now;
        wires.pipes.retain(|pipe| Arc::strong_count(pipe) > 1);
        for pipe in &wires.pipes {
            let mut pipe = pipe.lock().unwrap();
            if !wires.cut.contains(&(pipe.from, pipe.to)) && !pipe.silent {
                pipe.deliver(now);
            }
        }
        let calls = std::mem::take(&mut wires.calls);
        let mut taken = Vec::new();
        for call in calls.into_iter().filter(|call| !call.answered.is_closed()) {
            let (from, to) = (call.from, call.to);
            let waits = call.due > now || wires.is_cut(from, to) || wires.is_cut(to, from);
            if waits || wires.dark.contains(&to) {
                wires.calls.push(call);
            } else if wires.listeners.contains_key(&to) {
                let (there, back) = (Pipe::new(from, to), Pipe::new(to, from));
                wires.pipes.extend([Arc::clone(&there), Arc::clone(&back)]);
                let callee = End { net: self.clone(), hears: Arc::clone(&there), says: Arc::clone(&back) };
                let caller = End { net: self.clone(), hears: back, says: there };
                taken.push((call.answered, Ok(Box::new(caller) as Box<dyn Stream>)));
                wires.listeners[&to](Box::new(callee), from);
            } else {
                taken.push((call.answered, Err(io::ErrorKind::ConnectionRefused.into())));
            }
        }
        drop(wires);
        for (answered, end) in taken {
            let _ = answered.send(end);
        }
    }
}

/// How one node calls others.
pub(crate) struct Wire {
    net: Net,
    from: u16,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").field("from", &self.from).finish_non_exhaustive()
    }
}

/// Where a node is to be called.
pub(crate) fn address_of(node: u16) -> String {
    format!("node-{node}:1")
}

fn number(node: NodeId) -> u16 {
    node.0.get()
}

#[async_trait]
impl Way for Wire {
    async fn to(&self, address: &Address) -> io::Result<Box<dyn Stream>> {
        let to = number(address.node);
        assert_eq!(address.at, address_of(to), "nodes are called where they are");
        let answer = {
            let mut wires = self.net.lock();
            let due = wires.arrival(self.from, to).max(wires.arrival(to, self.from));
            let (answered, answer) = oneshot::channel();
            wires.calls.push(Call { from: self.from, to, due, answered });
            answer
        };
        answer.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}
