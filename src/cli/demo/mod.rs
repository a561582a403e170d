//! `anteroom demo`: the gate, a small shop behind it, and visitors who fill the shop, in one process.

mod shop;
mod visitor;

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Ended, complain, say};
use crate::app::{self, LogFormat, Node, Numbered, Signals, reachable};
use crate::config::{self, Settings};

/// Visitors that the shop holds.
const CAPACITY: u32 = 5;

/// Simulated visitors: as many as the shop holds, and a line of some.
const VISITORS: u32 = 12;

/// How far apart the simulated visitors come.
const ARRIVALS: Duration = Duration::from_millis(700);

pub(super) fn demo(signals: &Signals, address: IpAddr, port: u16) -> Ended {
    let place = match Place::make() {
        Ok(place) => place,
        Err(error) => {
            complain(&format!("anteroom: a directory for the demo cannot be made: {error}"));
            return Ended::Badly;
        }
    };
    match show(signals, SocketAddr::new(address, port), &place.0) {
        Ok(()) => Ended::Well,
        Err(error) => {
            complain(&format!("anteroom: {error}"));
            Ended::Badly
        }
    }
}

fn show(signals: &Signals, door: SocketAddr, directory: &Path) -> anyhow::Result<()> {
    let shop = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    shop.set_nonblocking(true)?;
    let settings = settings(door, shop.local_addr()?, directory)?;
    let token_file = settings.admin.token_file.clone();
    app::start_logs(LogFormat::Text);
    let Some(numbered) = Numbered::learn(&settings, signals)? else { return Ok(()) };
    let node = match Node::open(settings, None, numbered) {
        Ok(node) => node,
        Err(app::StartError::Bind(error)) => {
            anyhow::bail!("{error}; --port takes another port, 0 any that is free")
        }
        Err(error) => return Err(error.into()),
    };
    let door = node.listeners().first().copied().unwrap_or(door);
    let crowd = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    crowd.spawn(shop::serve(shop));
    for number in 0..VISITORS {
        crowd.spawn(async move {
            tokio::time::sleep(number * ARRIVALS).await;
            visitor::visit_for_ever(reachable(door)).await;
        });
    }
    let url = format!("http://{}/", reachable(door));
    say(&format!(
        "\n  A shop that holds {CAPACITY} visitors, and {VISITORS} who want in.\n\n  \
         Open {url} in a browser: you will see the line, wait your turn, and be let in.\n  \
         The operator's API is at http://{}/admin/events; its bearer token is in\n  {}\n\n  \
         Ctrl-C ends the demo.\n",
        node.admin(),
        token_file.display()
    ));
    let ended = node.run(signals);
    crowd.shutdown_background();
    ended.map(drop)
}

fn settings(door: SocketAddr, shop: SocketAddr, directory: &Path) -> anyhow::Result<Settings> {
    let text = format!(
        r#"
node: {{ id: 1, data_dir: "." }}
listeners: [ {{ address: "{door}" }} ]
admin: {{ address: "127.0.0.1:0" }}
metrics: {{ address: "127.0.0.1:0" }}
origins: {{ shop: {{ servers: ["{shop}"] }} }}
events:
  - id: demo
    match: [ {{ path: / }} ]
    origin: shop
    capacity: {CAPACITY}
    max_admit_per_sec: 1
    session_ttl_s: 60
    session_max_s: 120
    pass_claim_s: 30
"#
    );
    Ok(config::parse(&text, directory)?)
}

/// A directory that is gone when the demo is.
struct Place(PathBuf);

impl Place {
    fn make() -> std::io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let name = format!("anteroom-demo-{:08x}", rand::random::<u32>());
        let directory = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&directory)?;
        Ok(Self(directory))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever clears the temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demos_own_configuration_is_in_order() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let shop = SocketAddr::from(([127, 0, 0, 1], 3000));
        let settings = settings(any, shop, Path::new("/tmp")).unwrap();
        assert_eq!(settings.events[0].policy.capacity.get(), CAPACITY);
        assert_eq!(settings.warnings(), Vec::<String>::new());
    }

    #[test]
    fn the_directory_of_the_demo_goes_with_it() {
        let place = Place::make().unwrap();
        let directory = place.0.clone();
        std::fs::write(directory.join("file"), "").unwrap();
        drop(place);
        assert!(!directory.exists());
    }
}
