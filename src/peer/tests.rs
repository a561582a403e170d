use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::hello::VERSION;
use super::*;
use crate::model::ids::{Generation, NodeId, NodeRun};
use crate::model::time::FleetTime;

/// 15 June 2025: handshakes take place now, and certificates of then hold for ten years.
const MADE: FleetTime = FleetTime(1_750_000_000_000);

fn node(id: u16) -> NodeId {
    NodeId(NonZeroU16::new(id).unwrap())
}

fn run(id: u16) -> NodeRun {
    NodeRun { node: node(id), generation: Generation(7) }
}

fn ca() -> Issued {
    issue_ca(MADE).unwrap()
}

fn identity(ca: &Issued, id: u16) -> Identity {
    let dir = tempfile::tempdir().unwrap();
    let issued = issue_node(ca, node(id), MADE, 3_650).unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let authority = write("ca.crt", &ca.certificate);
    let (certificate, key) = (write("node.crt", &issued.certificate), write("node.key", &issued.key));
    Identity::load(&authority, &certificate, &key, node(id)).unwrap()
}

/// The port of node 1, which lets in all but gossip.
struct House {
    ca: Issued,
    at: SocketAddr,
    refusals: Arc<Refusals>,
    let_in: mpsc::Receiver<Conversation>,
    unnumbered: mpsc::Receiver<Applicant>,
}

impl House {
    fn open() -> Self {
        let ca = ca();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let refusals = Arc::new(Refusals::default());
        let (door, let_in) = mpsc::channel(8);
        let (gossip, _) = mpsc::channel(1);
        let (number, unnumbered) = mpsc::channel(8);
        let reception =
            Reception { control: door.clone(), raft: door.clone(), operator: door, gossip, number };
        let port = Port::new(listener, &identity(&ca, 1), run(1), reception, Arc::clone(&refusals)).unwrap();
        tokio::spawn(port.serve());
        Self { ca, at, refusals, let_in, unnumbered }
    }

    async fn call(&self) -> TcpStream {
        TcpStream::connect(self.at).await.unwrap()
    }

    /// TLS with this identity, and nothing said.
    async fn shake_hands(&self, identity: &Identity) -> TlsStream<TcpStream> {
        let name = ServerName::try_from(node_name(node(1))).unwrap();
        let tls = TlsConnector::from(Arc::clone(&identity.client));
        tls.connect(name, self.call().await).await.unwrap()
    }

    async fn dial(&self, identity: Identity, as_node: u16, purpose: Purpose) -> Result<(), DialError> {
        let to = Address { node: node(1), at: self.at.to_string() };
        Dialer::new(identity, run(as_node)).dial(&to, purpose).await.map(drop)
    }

    /// Waits until so many were refused for this reason, and for no other.
    async fn refused(&self, why: Refusal, times: u64) {
        let all = || Refusal::ALL.map(|one| (one, self.refusals.count(one)));
        let expected = Refusal::ALL.map(|one| (one, if one == why { times } else { 0 }));
        for _ in 0..1_000 {
            if all() == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(all(), expected);
    }

    /// A node of the fleet is let in all the same.
    async fn still_serves(&mut self) {
        self.dial(identity(&self.ca, 2), 2, Purpose::Control).await.unwrap();
        assert_eq!(self.let_in.recv().await.unwrap().peer(), run(2));
        assert!(self.let_in.try_recv().is_err());
    }
}

fn frame(message: &impl Serialize) -> Vec<u8> {
    let mut frame = postcard::to_extend(message, vec![0; 4]).unwrap();
    let length = u32::try_from(frame.len() - 4).unwrap();
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Reads until the other end hangs up.
async fn hung_up(stream: &mut (impl tokio::io::AsyncRead + Unpin)) {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut rest));
    let _ = read.await.expect("nobody hung up");
}

#[tokio::test]
async fn a_node_of_another_fleet_is_not_let_in() {
    let mut house = House::open();
    assert!(house.dial(identity(&ca(), 2), 2, Purpose::Control).await.is_err());
    // The other one hangs up by itself, since this is no node of its fleet: this side must not trust it either.
    house.refused(Refusal::Certificate, 1).await;
    let (own, other) = (identity(&house.ca, 2), identity(&ca(), 2));
    let mut trusting = rustls::ClientConfig::clone(&own.client);
    trusting.client_auth_cert_resolver = Arc::clone(&other.client.client_auth_cert_resolver);
    let trusting = Identity { client: Arc::new(trusting), ..own };
    assert!(house.dial(trusting, 2, Purpose::Control).await.is_err());
    house.refused(Refusal::Certificate, 2).await;
    house.still_serves().await;
}

#[tokio::test]
async fn whoever_talks_without_tls_is_not_let_in_and_who_only_hangs_up_is_not_counted() {
    let mut house = House::open();
    drop(house.call().await);
    let said: [&[u8]; 3] =
        [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", &[0xa5; 700], &[0x16, 0x03, 0x01, 0xff, 0xff, 1, 2, 3]];
    for (nth, said) in said.into_iter().enumerate() {
        let mut stream = house.call().await;
        stream.write_all(said).await.unwrap();
        stream.shutdown().await.unwrap();
        hung_up(&mut stream).await;
        house.refused(Refusal::Garbage, nth as u64 + 1).await;
    }
    house.still_serves().await;
}

#[tokio::test]
async fn garbage_instead_of_a_hello_is_refused() {
    let mut house = House::open();
    let node = identity(&house.ca, 2);
    let said =
        [frame(&[0xff_u8; 32]), frame(&()), frame(&(VERSION, VERSION, Some(run(2)), Purpose::Raft, 0_u8))];
    for (nth, said) in said.into_iter().enumerate() {
        let mut stream = house.shake_hands(&node).await;
        stream.write_all(&said).await.unwrap();
        hung_up(&mut stream).await;
        house.refused(Refusal::Garbage, nth as u64 + 1).await;
    }
    house.still_serves().await;
}

#[tokio::test]
async fn a_hello_that_is_too_long_is_refused_before_it_has_come() {
    let mut house = House::open();
    let node = identity(&house.ca, 2);
    for (nth, length) in [1025_u32, u32::MAX].into_iter().enumerate() {
        let mut stream = house.shake_hands(&node).await;
        stream.write_all(&length.to_be_bytes()).await.unwrap();
        hung_up(&mut stream).await;
        house.refused(Refusal::TooLong, nth as u64 + 1).await;
    }
    house.still_serves().await;
}

#[tokio::test]
async fn a_hello_must_fit_the_certificate_and_the_node_that_is_called() {
    for (certificate, says, purpose, why) in [
        (4, 5, Purpose::Control, Refusal::WrongNode),
        (4, 1, Purpose::Raft, Refusal::WrongNode),
        (1, 1, Purpose::Operator, Refusal::SameNode),
        (2, 2, Purpose::Gossip, Refusal::NotServed),
    ] {
        let mut house = House::open();
        let refused = house.dial(identity(&house.ca, certificate), says, purpose).await;
        let Err(DialError::Refused { refusal, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(refusal, why);
        house.refused(why, 1).await;
        house.still_serves().await;
    }
}

#[tokio::test]
async fn a_version_that_is_too_old_is_told_so() {
    let mut house = House::open();
    let mut stream = house.shake_hands(&identity(&house.ca, 2)).await;
    stream.write_all(&frame(&(0_u16, 0_u16, Some(run(2)), Purpose::Control))).await.unwrap();
    let expected = frame(&Err::<NodeRun, _>(Refusal::Version));
    let mut answer = vec![0; expected.len()];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, expected);
    house.refused(Refusal::Version, 1).await;
    house.still_serves().await;
}

#[tokio::test]
async fn who_says_nothing_is_cut_off_after_five_seconds() {
    let mut house = House::open();
    let began = Instant::now();
    let (mut without_tls, mut with_tls) =
        (house.call().await, house.shake_hands(&identity(&house.ca, 2)).await);
    tokio::join!(hung_up(&mut without_tls), hung_up(&mut with_tls));
    assert!(began.elapsed() >= Duration::from_millis(4_900), "{:?}", began.elapsed());
    house.refused(Refusal::Silent, 2).await;
    house.still_serves().await;
}

#[tokio::test]
async fn three_hundred_silent_callers_keep_no_node_out() {
    let mut house = House::open();
    let began = Instant::now();
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(house.call().await);
    }
    house.still_serves().await;
    // Their patience is not over: some had to go so that there was room for the node.
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    house.refused(Refusal::Crowded, 300 + 1 - 256).await;
    hung_up(&mut silent[0]).await;
}

#[tokio::test]
async fn who_was_let_in_and_announces_too_much_is_told_apart_from_who_hangs_up() {
    let mut house = House::open();
    let node = identity(&house.ca, 2);
    let hello = frame(&(VERSION, VERSION, Some(run(2)), Purpose::Control));
    for (said, why) in [
        (u32::MAX.to_be_bytes().to_vec(), Some(Refusal::TooLong)),
        (frame(&[9_u8; 30]), Some(Refusal::Garbage)),
        (vec![0, 0, 0, 9, 1], None),
    ] {
        let mut stream = house.shake_hands(&node).await;
        stream.write_all(&hello).await.unwrap();
        let mut conversation = house.let_in.recv().await.unwrap();
        stream.write_all(&said).await.unwrap();
        stream.shutdown().await.unwrap();
        let error = conversation.hear::<Result<u8, u16>>().await.unwrap_err();
        assert_eq!(error.refusal(), why, "{error}");
    }
    house.still_serves().await;
}

/// A file for each text.
fn files<const N: usize>(texts: [&str; N]) -> (tempfile::TempDir, [std::path::PathBuf; N]) {
    let dir = tempfile::tempdir().unwrap();
    let mut nth = 0;
    let paths = texts.map(|text| {
        nth += 1;
        let path = dir.path().join(nth.to_string());
        std::fs::write(&path, text).unwrap();
        path
    });
    (dir, paths)
}

fn unnumbered(ca: &Issued) -> Unnumbered {
    let issued = issue_unnumbered(ca, &"web".parse().unwrap(), MADE, 3_650).unwrap();
    let (_dir, [ca, certificate, key]) = files([&ca.certificate, &issued.certificate, &issued.key]);
    Unnumbered::load(IdentityFiles { ca: &ca, certificate: &certificate, key: &key }).unwrap()
}

fn numbering(ca: &Issued, signer: &Issued) -> Result<Numbering, NumberingError> {
    let (_dir, [ca, certificate, key]) = files([&ca.certificate, &signer.certificate, &signer.key]);
    Numbering::load(&ca, &certificate, &key)
}

#[tokio::test]
async fn an_edge_without_a_number_is_heard_for_that_alone_and_is_a_node_by_what_it_is_given() {
    let mut house = House::open();
    let (edge, key) = (unnumbered(&house.ca), EdgeKey::make().unwrap());
    let signer = issue_numbering(&house.ca, MADE, 3_650).unwrap();
    let signs = numbering(&house.ca, &signer).unwrap();
    let to = Address { node: node(1), at: house.at.to_string() };
    let answer = async {
        let applicant = house.unnumbered.recv().await.unwrap();
        assert_eq!(applicant.name().as_str(), "web");
        let (instance, chain) = (applicant.instance(), signs.certify(node(10_000), &applicant).unwrap());
        applicant.answer(&Given::Number(node(10_000), chain)).await;
        instance
    };
    let (given, instance) = tokio::join!(edge.ask(&to, &key), answer);
    let Ok(Given::Number(number, chain)) = given else { panic!("{given:?}") };
    let own = edge.identity(number, &chain, &key).unwrap();
    edge.identity(node(10_001), &chain, &key).expect_err("the certificate is of another number");
    edge.identity(number, &chain, &EdgeKey::make().unwrap()).expect_err("it is of another key");
    unnumbered(&ca()).identity(number, &chain, &key).expect_err("it is of another fleet");

    house.dial(own.clone(), 10_000, Purpose::Control).await.unwrap();
    let caller = house.let_in.recv().await.unwrap();
    assert_eq!((caller.peer(), caller.instance()), (run(10_000), Some(instance)));
    for claimed in [10_001, 2] {
        let refused = house.dial(own.clone(), claimed, Purpose::Gossip).await;
        assert!(
            matches!(refused, Err(DialError::Refused { refusal: Refusal::WrongNode, .. })),
            "{refused:?}"
        );
    }
    house.refused(Refusal::WrongNode, 2).await;
}

#[tokio::test]
async fn a_certificate_without_a_number_opens_no_other_door_and_no_node_gets_a_second_number() {
    let house = House::open();
    let issued = issue_unnumbered(&house.ca, &"web".parse().unwrap(), MADE, 3_650).unwrap();
    let (_dir, [ca, certificate, key]) = files([&house.ca.certificate, &issued.certificate, &issued.key]);
    let files = IdentityFiles { ca: &ca, certificate: &certificate, key: &key };
    let (roots, chain, secret) = identity::read(files, examine::Expected::Unnumbered).unwrap();
    let shared = Identity::of(roots, chain, secret).unwrap();
    for purpose in [Purpose::Control, Purpose::Gossip, Purpose::Number] {
        for claimed in [2, 10_000] {
            let refused = house.dial(shared.clone(), claimed, purpose).await;
            assert!(
                matches!(refused, Err(DialError::Refused { refusal: Refusal::WrongNode, .. })),
                "{refused:?}"
            );
        }
    }
    house.refused(Refusal::WrongNode, 6).await;
    // A node that has a number asks for one.
    let mut stream = house.shake_hands(&identity(&house.ca, 2)).await;
    stream.write_all(&frame(&(VERSION, VERSION, None::<NodeRun>, Purpose::Number))).await.unwrap();
    hung_up(&mut stream).await;
    house.refused(Refusal::WrongNode, 7).await;
}

#[test]
fn what_numbers_are_certified_with_certifies_nothing_else() {
    let ours = ca();
    let signer = issue_numbering(&ours, MADE, 3_650).unwrap();
    let (numbering_of, key) = (numbering(&ours, &signer).unwrap(), EdgeKey::make().unwrap());
    assert!(numbering_of.certify_key(node(65_535), &key).is_ok());
    for other in [1, 9_999] {
        let forged = numbering_of.certify_key(node(other), &key);
        assert!(matches!(forged, Err(IssueError::Mismatched)), "{other}: {forged:?}");
    }
    assert!(matches!(numbering(&ca(), &signer), Err(NumberingError::Unusable(IssueError::Mismatched))));
    let node_certificate = issue_node(&ours, node(1), MADE, 3_650).unwrap();
    let no_signer = numbering(&ours, &node_certificate);
    assert!(matches!(no_signer, Err(NumberingError::Unusable(IssueError::Mismatched))), "{no_signer:?}");
}
