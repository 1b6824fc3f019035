//! A small server that answers as it is told, and what it sees of the program that asks.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// How a request is answered.
pub enum Way {
    /// With a status and a body.
    Answer(u16, String),
    /// With these bytes.
    Raw(Vec<u8>),
    /// With a part of what was announced.
    BreakOff,
    /// With more than is read.
    Huge { with_length: bool },
    /// Never, until the one who asks leaves.
    Silent,
    /// Not, and nobody listens from then on.
    Die,
}

impl Way {
    /// EC2's list with the one instance `i-1` in a state.
    pub fn described(code: u32, name: &str) -> Self {
        Self::described_of("i-1", code, name)
    }

    /// The same with another instance.
    pub fn described_of(id: &str, code: u32, name: &str) -> Self {
        Self::Answer(
            200,
            format!(
                "<a><reservationSet><item><instancesSet><item><instanceId>{id}</instanceId><instanceState><code>{code}</code>\
                 <name>{name}</name></instanceState></item></instancesSet></item></reservationSet></a>"
            ),
        )
    }
}

/// Answers one request after the other.
pub struct Server {
    url: String,
    address: std::net::SocketAddr,
    is_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// `way` is told the number of a request, from 0, and its head and body.
    pub fn with(mut way: impl FnMut(usize, &str) -> Way + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&is_ended);
        let thread = thread::spawn(move || {
            for (number, connection) in listener.incoming().enumerate() {
                let Ok(mut connection) = connection else { continue };
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let request = read_request(&mut connection);
                if !answer(&mut connection, way(number, &request)) {
                    return;
                }
            }
        });
        Self { url: format!("http://{address}"), address, is_ended, thread: Some(thread) }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends it; where it was.
    pub fn end(self) -> String {
        self.url.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn read_request(connection: &mut TcpStream) -> String {
    let mut reader = BufReader::new(connection);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    let _ = reader.read_exact(&mut body);
    head + &String::from_utf8_lossy(&body)
}

/// Whether there is a next one. Those who ask may leave early.
fn answer(connection: &mut TcpStream, way: Way) -> bool {
    let length = |body: &str| format!("Content-Length: {}\r\n", body.len());
    let _ = match way {
        Way::Answer(status, body) => {
            write!(connection, "HTTP/1.1 {status} X\r\n{}Connection: close\r\n\r\n{body}", length(&body))
        }
        Way::Raw(bytes) => connection.write_all(&bytes),
        Way::BreakOff => write!(connection, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n<a>"),
        Way::Huge { with_length } => {
            let bytes = 20 << 20;
            let length = if with_length { format!("Content-Length: {bytes}\r\n") } else { String::new() };
            let head = write!(connection, "HTTP/1.1 200 OK\r\n{length}Connection: close\r\n\r\n");
            head.and_then(|()| connection.write_all(&vec![b'x'; bytes]))
        }
        Way::Silent => connection.read(&mut [0]).map(drop),
        Way::Die => return false,
    };
    true
}

/// The arguments of the programs that this process has started.
pub fn arguments_of_children() -> String {
    let own = std::process::id();
    let is_child = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.split_whitespace().eq(["PPid:", &own.to_string()]))
    };
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let arguments =
        pids.filter(is_child).map(|pid| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default());
    arguments.map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " ")).collect()
}
