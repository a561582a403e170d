//! The real binary, on ports and in a directory of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::disk::Disk;
use crate::ports;

/// The program under test.
pub(crate) fn anteroom() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anteroom"));
    command.env_remove("ANTEROOM_LOG");
    command
}

/// Answers every request with "the shop", and counts them.
pub(crate) struct Shop {
    pub(crate) address: SocketAddr,
    pub(crate) served: Arc<AtomicUsize>,
    /// Until this is true, what is asked below `/buy/held` has no answer.
    pub(crate) lets_go: Arc<AtomicBool>,
}

impl Shop {
    pub(crate) fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let served = Arc::new(AtomicUsize::new(0));
        let lets_go = Arc::new(AtomicBool::new(false));
        let (counted, held) = (Arc::clone(&served), Arc::clone(&lets_go));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, counted, held) = (stream.unwrap(), Arc::clone(&counted), Arc::clone(&held));
                std::thread::spawn(move || serve(stream, &counted, &held));
            }
        });
        Self { address, served, lets_go }
    }
}

fn serve(mut stream: TcpStream, served: &AtomicUsize, lets_go: &AtomicBool) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut line = String::new();
        let mut lines = 0;
        let (mut is_held, mut is_socket) = (false, false);
        while reader.read_line(&mut line).is_ok_and(|read| read > 0) && line != "\r\n" {
            is_held |= line.starts_with("GET /buy/held");
            is_socket |= line.starts_with("GET /buy/socket");
            line.clear();
            lines += 1;
        }
        if lines == 0 {
            return;
        }
        served.fetch_add(1, Ordering::SeqCst);
        if is_socket {
            let accepts = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                           Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
            stream.write_all(accepts.as_bytes()).unwrap();
            let _ = std::io::copy(&mut reader, &mut stream);
            return;
        }
        while is_held && !lets_go.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(10));
        }
        if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nthe shop").is_err() {
            return;
        }
    }
}

/// A node's place: its directory, its addresses, its file.
pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) visitors: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) metrics: SocketAddr,
}

impl Place {
    /// Ports that are free, and a file with one event.
    pub(crate) fn new(shop: &Shop, event: &str) -> Self {
        let [visitors, admin, metrics] = [(); 3].map(|()| ports::free().unwrap());
        let place = Self { dir: tempfile::tempdir().unwrap(), visitors, admin, metrics };
        place.write(&format!(
            "node: {{ id: 1, data_dir: ./data }}\n\
             listeners: [ {{ address: \"{visitors}\" }} ]\n\
             admin: {{ address: \"{admin}\" }}\n\
             metrics: {{ address: \"{metrics}\" }}\n\
             origins: {{ shop: {{ servers: [\"{}\"] }} }}\n\
             events:\n  - {{ id: tour, match: [ {{ path: /buy }} ], origin: shop, {event} }}\n",
            shop.address
        ));
        place
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join("anteroom.yaml")
    }

    /// The token of the operator's API, where the file names one.
    pub(crate) fn token(&self) -> PathBuf {
        self.dir.path().join("admin.token")
    }

    pub(crate) fn write(&self, text: &str) {
        std::fs::write(self.file(), text).unwrap();
    }

    pub(crate) fn read(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }

    /// Starts the node and waits until it is ready.
    pub(crate) fn start(&self) -> Running {
        self.start_while(|_| {})
    }

    /// Starts the node with this filter for its log.
    pub(crate) fn start_saying(&self, filter: &str) -> Running {
        let mut command = self.command();
        command.env("ANTEROOM_LOG", filter);
        self.run(command, |_| {})
    }

    /// Starts the node with its data on this disk.
    pub(crate) fn start_on(&self, disk: &Disk) -> Running {
        self.run(disk.inside(&self.command()), |_| {})
    }

    /// Starts the node, and calls `meanwhile` with the visitors' address again and again until it is ready.
    pub(crate) fn start_while(&self, meanwhile: impl Fn(SocketAddr)) -> Running {
        self.run(self.command(), meanwhile)
    }

    fn command(&self) -> Command {
        let mut command = anteroom();
        command.args(["run", "-c"]).arg(self.file());
        command
    }

    /// Starts the node, and does not wait for it.
    pub(crate) fn spawn(&self) -> Running {
        self.spawn_as(self.command())
    }

    /// Starts the node with these arguments too, and does not wait for it.
    pub(crate) fn spawn_with(&self, arguments: &[&str]) -> Running {
        let mut command = self.command();
        command.args(arguments);
        self.spawn_as(command)
    }

    fn spawn_as(&self, mut command: Command) -> Running {
        let log = std::fs::File::options().create(true).append(true).open(self.log()).unwrap();
        command.stderr(log).stdout(Stdio::null());
        Running(command.spawn().unwrap())
    }

    fn run(&self, command: Command, meanwhile: impl Fn(SocketAddr)) -> Running {
        let mut running = self.spawn_as(command);
        until("the node is ready", || {
            meanwhile(self.visitors);
            assert!(running.0.try_wait().unwrap().is_none(), "it ended: {}", self.logged());
            Request::get(self.metrics, "/readyz").try_send().is_some_and(|answer| answer.status == 200)
        });
        running
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("node.log")
    }

    pub(crate) fn logged(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Asks the operator's API.
    pub(crate) fn admin(&self, method: &str, path: &str, body: &str) -> serde_json::Value {
        let answer = self.try_admin(method, path, body);
        assert!(answer.status < 300, "{method} {path}: {answer:?}");
        serde_json::from_str(&answer.body).unwrap_or_default()
    }

    /// Asks the operator's API for what it may refuse.
    pub(crate) fn try_admin(&self, method: &str, path: &str, body: &str) -> Answer {
        let made = self.dir.path().join("data/admin.token");
        let token = std::fs::read_to_string(made).or_else(|_| std::fs::read_to_string(self.token())).unwrap();
        let mut request =
            Request::get(self.admin, path).header("Authorization", &format!("Bearer {}", token.trim()));
        request.method = method.to_owned();
        request.body = body.to_owned();
        request.header("Content-Type", "application/json").send()
    }
}

/// A process that is killed when the test ends.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.0.id());
        assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
    }

    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Kills it as soon as a condition holds.
    pub(crate) fn kill_once(self, holds: impl FnMut() -> bool) {
        until("the time to kill it has come", holds);
        self.kill();
    }

    /// Waits for the end.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let mut status = None;
        until("the process ends", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for a condition, half a minute at most.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1500 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("never: {what}");
}

/// A request on a connection of its own.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    address: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn get(address: SocketAddr, path: &str) -> Self {
        let (method, path) = ("GET".to_owned(), path.to_owned());
        Self { address, method, path, headers: Vec::new(), body: String::new() }
    }

    pub(crate) fn post(address: SocketAddr, path: &str) -> Self {
        Self { method: "POST".to_owned(), ..Self::get(address, path) }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn send(&self) -> Answer {
        self.try_send().unwrap_or_else(|| panic!("no answer to {self:?}"))
    }

    pub(crate) fn try_send(&self) -> Option<Answer> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
        let mut text = format!(
            "{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
            self.method, self.path, self.address
        );
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("Content-Length: {}\r\n\r\n{}", self.body.len(), self.body);
        stream.write_all(text.as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let answer = String::from_utf8(answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Answer { status, body: body.to_owned() })
    }
}

impl Answer {
    pub(crate) fn json(&self) -> serde_json::Value {
        let body = self.body.find('{').map_or("", |from| &self.body[from..]);
        let body = body.rfind('}').map_or("", |to| &body[..=to]);
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs a command to its end.
pub(crate) fn output(arguments: &[&str], file: Option<&Path>) -> (i32, String) {
    let mut command = anteroom();
    command.args(arguments);
    if let Some(file) = file {
        command.arg("-c").arg(file);
    }
    let output = command.output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}
