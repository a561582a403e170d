//! A network of its own: one namespace to a node, all on one bridge, links that can be cut between any two.

use std::io;
use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Command;
use std::sync::Mutex;

/// Where nodes talk to each other.
pub(crate) const PEERS: u16 = 7946;

/// The rules of every namespace: packets from and to who is cut off are dropped, and some of those between nodes.
const RULES: &str = "table inet links {
    set cut {
        type ipv4_addr
    }
    chain in {
        type filter hook input priority 0
        ip saddr @cut drop
    }
    chain out {
        type filter hook output priority 0
        ip daddr @cut drop
    }
    chain lossy {
        type filter hook input priority 1
    }
}";

/// Namespaces, which go away with it.
#[derive(Debug)]
pub(crate) struct Net {
    name: String,
    number: u8,
    nodes: u8,
}

/// Whoever has one has its number, until the process ends: what was a network's goes away a while after it does.
static CLAIMS: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

impl Net {
    /// A network of so many nodes, numbered from 1, that no other test on this machine has; `None`: there are no namespaces to
    /// be had here.
    pub(crate) fn new(nodes: u8) -> Option<Self> {
        let number = (1..=u8::MAX).find(|number| claim(*number).is_ok())?;
        let name = format!("wr{}n{number}", std::process::id() % 10_000);
        let net = Self { name, number, nodes };
        let space = net.space(0);
        let probe = || {
            run(&format!("ip netns add {space}"))?;
            run(&format!("ip netns exec {space} nft list ruleset"))
        };
        probe().inspect_err(|error| println!("{error}")).ok()?;
        net.make().unwrap();
        Some(net)
    }

    fn make(&self) -> io::Result<()> {
        let bridge = &self.name;
        run(&format!("ip link add {bridge} type bridge"))?;
        run(&format!("ip addr add {}/24 dev {bridge}", self.host()))?;
        run(&format!("ip link set {bridge} up"))?;
        for node in 1..=self.nodes {
            let (space, link) = (self.space(node), format!("{bridge}-{node}"));
            run(&format!("ip netns add {space}"))?;
            run(&format!("ip link add {link} type veth peer name eth0 netns {space}"))?;
            run(&format!("ip link set {link} master {bridge} up"))?;
            let within = format!("ip -n {space}");
            run(&format!("{within} addr add {}/24 dev eth0", self.address(node)))?;
            run(&format!("{within} link set eth0 up"))?;
            run(&format!("{within} link set lo up"))?;
            self.rules(node, RULES)?;
        }
        Ok(())
    }

    /// The address of this machine.
    pub(crate) fn host(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 99, self.number, 254)
    }

    /// The address of a node.
    pub(crate) fn address(&self, node: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 99, self.number, node)
    }

    fn space(&self, node: u8) -> String {
        format!("{}-{node}", self.name)
    }

    /// What a command begins with that runs at a node.
    pub(crate) fn within(&self, node: u8) -> [String; 4] {
        ["ip".to_owned(), "netns".to_owned(), "exec".to_owned(), self.space(node)]
    }

    fn rules(&self, node: u8, rules: &str) -> io::Result<()> {
        run(&format!("ip netns exec {} nft '{rules}'", self.space(node)))
    }

    /// Cuts the link between two nodes, in both directions.
    pub(crate) fn cut(&self, one: u8, other: u8) {
        self.rules(one, &format!("add element inet links cut {{ {} }}", self.address(other))).unwrap();
    }

    /// Mends every link of every node.
    pub(crate) fn mend(&self) {
        for node in 1..=self.nodes {
            self.rules(node, "flush set inet links cut").unwrap();
            self.rules(node, "flush chain inet links lossy").unwrap();
        }
    }

    /// Cuts every link between nodes; visitors still reach all of them.
    pub(crate) fn cut_all(&self) {
        for one in 1..=self.nodes {
            (one + 1..=self.nodes).for_each(|other| self.cut(one, other));
        }
    }

    /// Splits the nodes in two: those listed, and the others.
    pub(crate) fn split(&self, side: &[u8]) {
        for one in side {
            (1..=self.nodes).filter(|other| !side.contains(other)).for_each(|other| self.cut(*one, other));
        }
    }

    /// Drops this share of the packets that nodes send each other.
    pub(crate) fn lose(&self, percent: u8) {
        for node in 1..=self.nodes {
            for side in ["sport", "dport"] {
                let rule = format!(
                    "add rule inet links lossy tcp {side} {PEERS} numgen random mod 100 < {percent} drop"
                );
                self.rules(node, &rule).unwrap();
            }
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for node in 0..=self.nodes {
            let _ = run(&format!("ip netns del {}", self.space(node)));
        }
        let _ = run(&format!("ip link del {}", self.name));
    }
}

fn claim(number: u8) -> io::Result<()> {
    let name = SocketAddr::from_abstract_name(format!("anteroom-net-{number}"))?;
    CLAIMS.lock().unwrap().push(UnixListener::bind_addr(&name)?);
    Ok(())
}

fn run(command: &str) -> io::Result<()> {
    let done = Command::new("sh").arg("-c").arg(command).output()?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(io::Error::other(format!("{command}: {said}")))
}
