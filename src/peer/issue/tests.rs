use std::num::NonZeroU16;

use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;

const YEAR: u16 = 365;

/// 15 January 2027; handshakes take place then.
const NOW: FleetTime = FleetTime(1_800_000_000_000);

#[derive(Debug)]
struct Then;

impl TimeProvider for Then {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_millis(NOW.0)))
    }
}

fn node(id: u16) -> NodeId {
    NodeId(NonZeroU16::new(id).unwrap())
}

fn ca() -> Issued {
    issue_ca(NOW).unwrap()
}

fn issued(ca: &Issued, id: u16) -> Issued {
    issue_node(ca, node(id), NOW, YEAR).unwrap()
}

fn roots(ca: &Issued) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.certificate.as_bytes()).unwrap()).unwrap();
    Arc::new(roots)
}

fn identity(of: &Issued) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let certificate = CertificateDer::from_pem_slice(of.certificate.as_bytes()).unwrap();
    (vec![certificate], PrivateKeyDer::from_pem_slice(of.key.as_bytes()).unwrap())
}

/// Has two nodes that trust one CA each shake hands by TLS 1.3 and say a word in both directions.
async fn talk(
    (server_ca, server): (&Issued, &Issued),
    (client_ca, client): (&Issued, &Issued),
    name: &str,
) -> std::io::Result<()> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(server_ca), Arc::clone(&provider));
    let (chain, key) = identity(server);
    let server = ServerConfig::builder_with_details(Arc::clone(&provider), Arc::new(Then))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(chain, key)
        .unwrap();
    let (chain, key) = identity(client);
    let client = ClientConfig::builder_with_details(provider, Arc::new(Then))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots(client_ca))
        .with_client_auth_cert(chain, key)
        .unwrap();
    let (near, far) = tokio::io::duplex(16 * 1024);
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let serve = async {
        let mut stream = TlsAcceptor::from(Arc::new(server)).accept(far).await?;
        let asked = stream.read_u8().await?;
        stream.write_u8(asked + 1).await?;
        stream.shutdown().await
    };
    let ask = async {
        let mut stream = TlsConnector::from(Arc::new(client)).connect(name, near).await?;
        stream.write_u8(41).await?;
        assert_eq!(stream.read_u8().await?, 42);
        Ok(())
    };
    tokio::try_join!(serve, ask).map(drop)
}

#[tokio::test]
async fn nodes_of_one_ca_talk_and_know_each_other_by_name() {
    let ca = ca();
    let (one, two) = (issued(&ca, 1), issued(&ca, 9_999));
    talk((&ca, &one), (&ca, &two), &node_name(node(1))).await.unwrap();
    talk((&ca, &two), (&ca, &one), "node-9999.anteroom.internal").await.unwrap();
    for wrong in [node_name(node(2)), "anteroom.internal".to_owned()] {
        let refused = talk((&ca, &one), (&ca, &two), &wrong).await.unwrap_err().to_string();
        assert!(refused.contains("not valid for name"), "{refused}");
    }
}

#[tokio::test]
async fn a_certificate_of_another_ca_is_refused_by_both_sides() {
    let (ours, theirs) = (ca(), ca());
    let (own, stranger) = (issued(&ours, 1), issued(&theirs, 2));
    let asked = talk((&ours, &own), (&ours, &stranger), &node_name(node(1))).await;
    asked.expect_err("the server refuses a client of another CA");
    let served = talk((&theirs, &stranger), (&ours, &own), &node_name(node(2))).await;
    served.expect_err("the client refuses a server of another CA");
    // The same two files with the right CA: it was the CA that was refused.
    talk((&theirs, &stranger), (&theirs, &issued(&theirs, 1)), &node_name(node(2))).await.unwrap();
}

#[test]
fn a_certificate_holds_from_an_hour_before_it_was_made_until_its_lifetime_is_over() {
    let ca = ca();
    let made = issued(&ca, 1);
    let der = CertificateDer::from_pem_slice(made.certificate.as_bytes()).unwrap();
    let holds = |at: u64| verify(super::roots(&ca.certificate).unwrap(), &der, &[], FleetTime(at)).is_ok();
    let (first, last) = (NOW.0 - 3_600_000, NOW.0 + 365 * 86_400_000);
    assert!(holds(first) && !holds(first - 1000));
    assert!(holds(last) && !holds(last + 1000));
}

#[test]
fn a_node_cannot_sign_for_another() {
    let ca = ca();
    let one = issued(&ca, 1);
    let forged = issue_node(&one, node(2), NOW, YEAR);
    assert!(matches!(forged, Err(IssueError::Mismatched)), "{forged:?}");
}

#[test]
fn files_that_do_not_belong_together_are_told() {
    let (ours, theirs) = (ca(), ca());
    let issue = |certificate: &str, key: &str| {
        let ca = Issued { certificate: certificate.to_owned(), key: key.to_owned() };
        issue_node(&ca, node(1), NOW, YEAR).unwrap_err()
    };
    assert!(matches!(issue(&ours.certificate, &theirs.key), IssueError::Mismatched));
    assert!(matches!(issue(&ours.certificate, "no key"), IssueError::UnusableKey));
    assert!(matches!(issue("no certificate", &ours.key), IssueError::UnusableCa));
}

#[test]
fn a_key_is_not_written_out_with_its_certificate() {
    let made = ca();
    let secret = made.key.lines().nth(1).unwrap();
    assert!(!format!("{made:?}").contains(secret));
}
