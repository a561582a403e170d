//! A waiting room under test: the real binary, in a directory of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::admin::Admin;
use crate::ports::free;

/// How long a start may take.
const START: Duration = Duration::from_secs(30);

/// Where a subject lives, and what it is told.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The binary.
    pub binary: PathBuf,
    /// Its directory: configuration, token, data, log.
    pub directory: PathBuf,
    /// Where visitors are served.
    pub public: SocketAddr,
    /// Where the operator's API is.
    pub admin: SocketAddr,
    /// Where health is told.
    pub metrics: SocketAddr,
    /// The site behind it.
    pub origin: SocketAddr,
    /// The `events:` of its configuration, in YAML.
    pub events: String,
}

impl Plan {
    /// A plan with free ports on this machine.
    ///
    /// # Errors
    /// When there is no free port or the directory cannot be made.
    pub fn new(binary: &Path, directory: &Path, origin: SocketAddr, events: &str) -> std::io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        Ok(Self {
            binary: binary.to_owned(),
            directory: directory.to_owned(),
            public: free()?,
            admin: free()?,
            metrics: free()?,
            origin,
            events: events.to_owned(),
        })
    }

    /// The URL for visitors.
    #[must_use]
    pub fn target(&self) -> String {
        format!("http://{}", self.public)
    }

    /// The operator.
    ///
    /// # Errors
    /// When the token cannot be read.
    pub fn operator(&self) -> anyhow::Result<Admin> {
        Admin::new(&format!("http://{}", self.admin), Some(&self.directory.join("admin.token")))
    }

    /// What the binary has said.
    #[must_use]
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.directory.join("anteroom.log")).unwrap_or_default()
    }

    /// Writes the configuration, as it is at the start and may be again before a reload.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self) -> std::io::Result<()> {
        std::fs::write(self.directory.join("admin.token"), "load-tool-token-0123456789abcdef\n")?;
        let Self { public, admin, metrics, origin, events, .. } = self;
        std::fs::write(
            self.directory.join("anteroom.yaml"),
            format!(
                "node: {{ id: 1, data_dir: ./data }}\n\
                 listeners:\n  - address: {public}\n\
                 trusted_proxies: [127.0.0.0/8]\n\
                 admin: {{ address: {admin}, token_file: admin.token }}\n\
                 metrics: {{ address: {metrics} }}\n\
                 public_path: /waitingroom\n\
                 default_origin: shop\n\
                 origins:\n  shop: {{ servers: [\"{origin}\"] }}\n\
                 limits: {{ joins_per_sec: 100000, per_address: {{ joins_per_min: 1000000, \
                 strangers_per_min: 1000000 }} }}\n\
                 events:\n{events}"
            ),
        )
    }
}

/// A running subject; it is killed when this is dropped.
#[derive(Debug)]
pub struct Subject {
    /// Where it lives.
    pub plan: Plan,
    child: Child,
}

impl Subject {
    /// Writes the configuration, starts the binary and waits until it is ready.
    ///
    /// # Errors
    /// When it cannot be started, ends, or is not ready in time: with what it said.
    pub async fn start(plan: Plan) -> anyhow::Result<Self> {
        plan.write()?;
        let mut subject = Self { child: spawn(&plan)?, plan };
        subject.ready().await?;
        Ok(subject)
    }

    /// Starts it again, after it was killed.
    ///
    /// # Errors
    /// As [`Subject::start`].
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.child = spawn(&self.plan)?;
        self.ready().await
    }

    /// Ends it at once, as `kill -9` does, and waits until it is gone.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn kill(&mut self) -> std::io::Result<()> {
        self.child.kill().await
    }

    /// Sends it a signal by name, such as HUP.
    ///
    /// # Errors
    /// When it has ended or the signal cannot be sent.
    pub async fn signal(&self, name: &str) -> anyhow::Result<()> {
        let id = self.child.id().context("the waiting room has ended")?;
        let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {id}")).status().await?;
        if !sent.success() {
            bail!("signal {name} could not be sent to {id}");
        }
        Ok(())
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let health = Admin::new(&format!("http://{}", self.plan.metrics), None)?;
        while !health.is_ready().await {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status}:\n{}", self.plan.binary.display(), self.plan.said());
            }
            if begun.elapsed() > START {
                bail!("{} was not ready in time:\n{}", self.plan.binary.display(), self.plan.said());
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

fn spawn(plan: &Plan) -> anyhow::Result<Child> {
    let log = std::fs::File::options().create(true).append(true).open(plan.directory.join("anteroom.log"))?;
    Command::new(&plan.binary)
        .args(["run", "-c", "anteroom.yaml"])
        .current_dir(&plan.directory)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("{} could not be started", plan.binary.display()))
}

/// The binary of the waiting room: `ANTEROOM_BIN`, or the one beside this program.
///
/// # Errors
/// When there is none.
pub fn binary() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("ANTEROOM_BIN") {
        return Ok(PathBuf::from(path));
    }
    let own = std::env::current_exe()?;
    let beside = own.ancestors().skip(1).take(2).map(|directory| directory.join("anteroom"));
    beside
        .into_iter()
        .find(|path| path.is_file())
        .context("there is no anteroom binary beside this program; build it, or name it in ANTEROOM_BIN")
}
