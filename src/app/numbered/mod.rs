//! Who this node is: numbered by its configuration, or by the leader.

mod kept;

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;

use self::kept::Kept;
use super::bind::Reserved;
use super::hand_over::Sockets;
use super::node::StartError;
use super::peering::identity;
use super::signals::Signals;
use crate::config::{ClusterSettings, OwnNumber, PeerFiles, Settings};
use crate::model::ids::NodeId;
use crate::peer::{Address, DialError, Given, Identity, IdentityFiles, Unnumbered};

/// How long to wait until the controllers are asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// After so long without an answer, the number that was kept has to do.
const LEADER_PATIENCE: Duration = Duration::from_secs(2);

/// Who a node is.
#[derive(Clone, Debug)]
pub struct Numbered {
    pub(super) node: NodeId,
    /// What it shows to others; `None`: it is alone.
    pub(super) identity: Option<Identity>,
}

impl Numbered {
    /// Who the node of this configuration is. One that the leader numbers waits for that, and for as long serves nobody
    /// and is not ready; with a number that it kept it waits two seconds at most. `None`: a signal has ended it.
    ///
    /// # Errors
    /// When its certificate does not do, or what it is given cannot be kept in the data directory.
    pub fn learn(settings: &Settings, signals: &Signals) -> Result<Option<Self>, StartError> {
        let cluster = settings.cluster.as_ref();
        let node = match (settings.node.id, cluster) {
            (OwnNumber::Configured(node), _) => node,
            (OwnNumber::Auto, Some(cluster)) => return Self::ask(settings, cluster, signals),
            (OwnNumber::Auto, None) => {
                return Err(StartError::System("`node.id: auto` needs a `cluster`".to_owned()));
            }
        };
        let identity = cluster.map(|cluster| identity(cluster, node)).transpose()?;
        Ok(Some(Self { node, identity }))
    }

    /// The number that the node had last, if it is one that the leader gave and is kept in the data directory.
    #[must_use]
    pub(super) fn last(settings: &Settings) -> Option<NodeId> {
        settings.node.id.configured().or_else(|| Kept::look(&settings.node.data_dir))
    }

    fn ask(
        settings: &Settings,
        cluster: &ClusterSettings,
        signals: &Signals,
    ) -> Result<Option<Self>, StartError> {
        let PeerFiles { ca, certificate, key } = &cluster.tls;
        let edge = Unnumbered::load(IdentityFiles { ca, certificate, key })?;
        let data_dir = &settings.node.data_dir;
        let unkept = |error: io::Error| StartError::Unkept { path: data_dir.clone(), source: error };
        let mut kept = Kept::load_or_make(data_dir).map_err(unkept)?;
        let controllers = cluster.controllers.iter().map(|(node, at)| (*node, at.to_string())).collect();
        let search = Search { edge: &edge, kept: &kept, controllers };
        let had = kept.number().and_then(|(node, chain)| {
            let identity = edge.identity(node, chain, kept.key()).inspect_err(|error| {
                tracing::warn!(%node, "the number that was kept is of no use: {error}");
            });
            Some(Self { node, identity: Some(identity.ok()?) })
        });
        let patience = async {
            match &had {
                Some(_) => tokio::time::sleep(LEADER_PATIENCE).await,
                None => std::future::pending().await,
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let found = runtime.map_err(|error| StartError::System(error.to_string()))?.block_on(async {
            tokio::select! {
                found = search.run() => Some(Some(found)),
                () = patience => Some(None),
                _ = signals.order("the node waits for its number") => None,
                () = say_not_ready(settings) => None,
            }
        });
        match (found, had) {
            (None, _) => Ok(None),
            (Some(Some((numbered, chain))), _) => {
                kept.keep(data_dir, numbered.node, chain).map_err(unkept)?;
                tracing::info!(node = %numbered.node, name = %edge.name(), "the leader has given this edge its number");
                Ok(Some(numbered))
            }
            (Some(None), had) => {
                let node = had.as_ref().map(|had| had.node.to_string()).unwrap_or_default();
                tracing::warn!("no controller answers: this edge goes by the number {node} that it had");
                Ok(had)
            }
        }
    }
}

/// Asks the controllers in turn.
struct Search<'a> {
    edge: &'a Unnumbered,
    kept: &'a Kept,
    controllers: BTreeMap<NodeId, String>,
}

impl Search<'_> {
    /// The number, and what proves it; asks until there is one.
    async fn run(&self) -> (Numbered, Vec<Vec<u8>>) {
        let mut told = None;
        loop {
            let mut why = "no controller answers".to_owned();
            let mut hint = None;
            let mut left: Vec<NodeId> = self.controllers.keys().copied().collect();
            while !left.is_empty() {
                let hinted = hint.take().and_then(|hint| left.iter().position(|node| *node == hint));
                let node = left.remove(hinted.unwrap_or(0));
                match self.ask(node).await {
                    Ok(found) => return found,
                    Err(NoAnswer::NotLeader(leader)) => {
                        hint = leader;
                        why = "controllers answer, and none of them leads".to_owned();
                    }
                    Err(NoAnswer::Refused(reason)) => why = reason,
                    Err(NoAnswer::Unreached(error)) if left.is_empty() => why = error.to_string(),
                    Err(NoAnswer::Unreached(_)) => {}
                }
            }
            if told.as_ref() != Some(&why) {
                tracing::warn!(
                    "this edge has no number yet, and serves nobody ({why}): asking until it has one"
                );
                told = Some(why);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn ask(&self, controller: NodeId) -> Result<(Numbered, Vec<Vec<u8>>), NoAnswer> {
        let at = self.controllers.get(&controller).cloned().unwrap_or_default();
        let to = Address { node: controller, at };
        match self.edge.ask(&to, self.kept.key()).await {
            Ok(Given::Number(node, chain)) => match self.edge.identity(node, &chain, self.kept.key()) {
                Ok(identity) => Ok((Numbered { node, identity: Some(identity) }, chain)),
                Err(error) => Err(NoAnswer::Refused(error.to_string())),
            },
            Ok(Given::NotLeader(leader)) => Err(NoAnswer::NotLeader(leader)),
            Ok(Given::Nothing(why)) => Err(NoAnswer::Refused(why.to_string())),
            Err(error @ DialError::Refused { .. }) => Err(NoAnswer::Refused(error.to_string())),
            Err(error) => Err(NoAnswer::Unreached(error)),
        }
    }
}

/// What else a controller may answer.
enum NoAnswer {
    NotLeader(Option<NodeId>),
    Refused(String),
    Unreached(DialError),
}

/// Answers probes for as long as the node waits: it lives, and is not ready. Where another process has the address it
/// answers them itself.
async fn say_not_ready(settings: &Settings) {
    let sockets = Sockets::default();
    let reserved = Reserved::new("metrics.address", settings.metrics.address, &sockets);
    let Ok(listener) = reserved.and_then(|reserved| reserved.listen(&sockets)) else {
        return std::future::pending().await;
    };
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return std::future::pending().await;
    };
    let waits = async || (StatusCode::SERVICE_UNAVAILABLE, "waits for its number\n");
    let routes = Router::new().route("/livez", get(async || "alive\n")).fallback(waits);
    let _ = axum::serve(listener, routes).await;
    std::future::pending().await
}
