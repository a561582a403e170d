//! Edges that the leader numbers.

use super::*;
use crate::peer::{DialError, EdgeKey, Given, IdentityFiles, NoNumber, Unnumbered, issue_unnumbered};

impl Fleet {
    /// What all edges of a name show before they have numbers.
    fn unnumbered(&self, name: &str) -> Unnumbered {
        let issued = issue_unnumbered(&self.ca, &name.parse().unwrap(), Clock::start().wall(), 2).unwrap();
        let [ca, certificate, key] = self.files(name, &issued);
        Unnumbered::load(IdentityFiles { ca: &ca, certificate: &certificate, key: &key }).unwrap()
    }

    async fn ask(&self, edge: &Unnumbered, key: &EdgeKey, controller: u16) -> Result<Given, DialError> {
        let to = Address { node: node(controller), at: self.controllers[&node(controller)].clone() };
        edge.ask(&to, key).await
    }

    /// The number that whoever leads gives the edge, and who it is by it.
    async fn numbered(&self, edge: &Unnumbered, key: &EdgeKey) -> (u16, Identity) {
        let mut numbered = None;
        until("the edge has a number", async || {
            for controller in self.controllers.keys().map(|node| node.0.get()) {
                if let Ok(Given::Number(node, chain)) = self.ask(edge, key, controller).await {
                    numbered = Some((node.0.get(), edge.identity(node, &chain, key).unwrap()));
                }
            }
            numbered.is_some()
        })
        .await;
        numbered.unwrap()
    }

    fn start_edge(&mut self, (id, identity): &(u16, Identity)) {
        self.start_as(*id, identity.clone(), TcpListener::bind("127.0.0.1:0").unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edges_of_one_certificate_get_two_numbers_and_keep_them_and_serve_by_them() {
    let mut fleet = Fleet::new(3, 0).await;
    fleet.found().await;
    let (web, keys) = (fleet.unnumbered("web"), [EdgeKey::make().unwrap(), EdgeKey::make().unwrap()]);
    let (one, other) = (fleet.numbered(&web, &keys[0]).await, fleet.numbered(&web, &keys[1]).await);
    assert!(one.0 != other.0 && node(one.0).is_given() && node(other.0).is_given());
    fleet.start_edge(&one);
    fleet.start_edge(&other);
    fleet.all_fresh().await;
    fleet.put(other.0, 10).await;
    let known = fleet.deed(one.0, FleetDeed::Look).await.unwrap();
    let named = |id: u16| {
        let runs = known["nodes"].as_array().unwrap();
        runs.iter().find(|run| run["node"] == id).map(|run| run["name"].clone())
    };
    assert_eq!((named(one.0), named(1)), (Some("web".into()), Some(serde_json::Value::Null)), "{known}");

    // Back with its disk, which keeps the key, while another leads than the one that gave the number.
    fleet.stop(one.0).await;
    let leader = fleet.leader(other.0).await.unwrap();
    fleet.stop(leader).await;
    fleet.put(other.0, 20).await;
    fleet.restart(leader).await;
    let again = EdgeKey::from_pem(&keys[0].pem()).unwrap();
    let back = fleet.numbered(&web, &again).await;
    assert_eq!(back.0, one.0);
    fleet.start_edge(&back);
    fleet.all_fresh().await;
    // Back without a disk it is another.
    let third = fleet.numbered(&web, &EdgeKey::make().unwrap()).await.0;
    assert!(third != one.0 && third != other.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_that_claims_the_number_of_another_is_refused() {
    let mut fleet = Fleet::new(1, 0).await;
    fleet.found().await;
    let (web, key) = (fleet.unnumbered("web"), EdgeKey::make().unwrap());
    let (mine, identity) = fleet.numbered(&web, &key).await;
    let (theirs, other) = fleet.numbered(&web, &EdgeKey::make().unwrap()).await;
    let call = async |identity: &Identity, claimed: u16| {
        let me = NodeRun { node: node(claimed), generation: Generation(u32::MAX) };
        let at = Address { node: node(1), at: fleet.nodes[&1].at.clone() };
        Dialer::new(identity.clone(), me).dial(&at, Purpose::Control).await
    };
    for called in [call(&other, mine).await, call(&identity, 1).await] {
        let Err(DialError::Refused { refusal, .. }) = called else { panic!("{called:?}") };
        assert_eq!(refusal, Refusal::WrongNode);
    }

    // A certificate of a number that somebody else holds by now: the log decides.
    let old = {
        let numbering = fleet.numbering("elsewhere");
        let stranger = EdgeKey::make().unwrap();
        let chain = numbering.certify_key(node(theirs), &stranger).unwrap();
        web.identity(node(theirs), &chain, &stranger).unwrap()
    };
    let mut refused = call(&old, theirs).await.unwrap();
    let answer: ToEdge = refused.hear().await.unwrap();
    assert!(matches!(answer, ToEdge::Refused(Refusal::NotHolder)), "{answer:?}");
    assert_eq!(fleet.refused(1, Refusal::NotHolder), 1);
    fleet.start_edge(&(theirs, other));
    fleet.all_fresh().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_lead_says_who_does_and_nobody_is_numbered_without_a_leader() {
    let mut fleet = Fleet::new(3, 0).await;
    fleet.found().await;
    let (web, key) = (fleet.unnumbered("web"), EdgeKey::make().unwrap());
    let (first, _) = fleet.numbered(&web, &key).await;
    let leader = fleet.leader(1).await.unwrap();
    let followers: Vec<u16> = (1..=3).filter(|id| *id != leader).collect();
    let told = fleet.ask(&web, &key, followers[0]).await.unwrap();
    assert_eq!(told, Given::NotLeader(Some(node(leader))));
    fleet.stop(leader).await;
    fleet.stop(followers[0]).await;
    let alone = fleet.ask(&web, &EdgeKey::make().unwrap(), followers[1]).await.unwrap();
    let refused = matches!(&alone, Given::NotLeader(_) | Given::Nothing(NoNumber::Unavailable));
    assert!(refused, "{alone:?}");
    fleet.restart(leader).await;
    assert_eq!(fleet.numbered(&web, &key).await.0, first, "the number was in the log before it was told");
}
