//! The controller's end of an agent's stream: requests out, answers in, any number in flight.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nestor_stop::lock;

use crate::bounds::check_answer;
use crate::loss::Loss;
use crate::message::{Answer, Envelope, PROTOCOL, Request, read_frame, write_frame};
use crate::refusal::{Cause, Refusal};

/// The number of what an agent says unasked: its greeting, and later why it is of no more use.
pub const GREETING: u64 = 0;

/// Why a request had no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum NoAnswer {
    /// The stream ended.
    Gone(String),
    /// Nothing is asked of it any more, because it cannot go on without what has ended.
    GivenUp(Loss),
    /// Nothing came in time.
    TimedOut(Duration),
}

impl NoAnswer {
    /// Why an agent that was started says nothing.
    pub fn of_new_agent(self) -> String {
        match self {
            Self::Gone(reason) => reason,
            Self::GivenUp(loss) => loss.to_string(),
            Self::TimedOut(limit) => format!("it did not answer within {} s", limit.as_secs()),
        }
    }
}

/// Hears of requests and answers as they pass.
pub trait Watch: Send + Sync {
    /// A request of this many bytes was sent.
    fn asked(&self, bytes: usize);
    /// A whole answer was read, or the agent's greeting.
    fn answered(&self);
}

/// Watches nothing.
impl Watch for () {
    fn asked(&self, _bytes: usize) {}
    fn answered(&self) {}
}

/// A stream to one agent.
pub struct Connection {
    /// `None` after [`Connection::hang_up`].
    writer: Mutex<Option<Box<dyn Write + Send>>>,
    shared: Arc<Mutex<Shared>>,
    watch: Arc<dyn Watch>,
    hello: Mutex<Receiver<Answer>>,
}

/// A thread that panics with it, or with another lock of this crate, leaves consistent data: every change is one statement.
#[derive(Default)]
struct Shared {
    next: u64,
    waiting: HashMap<u64, Sender<Answer>>,
    gone: Option<NoAnswer>,
}

impl Connection {
    /// Starts reading answers from `reader`; requests go to `writer`.
    pub fn new(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) -> Self {
        Self::watched(reader, writer, Arc::new(()))
    }

    /// The same with an observer of all traffic.
    pub fn watched(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        watch: Arc<dyn Watch>,
    ) -> Self {
        let shared = Arc::new(Mutex::new(Shared { next: 1, ..Shared::default() }));
        let (hello_sender, hello) = channel();
        lock(&shared).waiting.insert(GREETING, hello_sender);
        let for_reader = Arc::clone(&shared);
        let for_watch = Arc::clone(&watch);
        std::thread::spawn(move || read_answers(reader, &for_reader, &*for_watch));
        Self { writer: Mutex::new(Some(Box::new(writer))), shared, watch, hello: Mutex::new(hello) }
    }

    /// Waits for the agent's greeting.
    ///
    /// # Errors
    /// When it does not come, or is of another protocol version.
    pub fn wait_hello(&self, limit: Duration) -> Result<(), NoAnswer> {
        self.await_hello(limit, &mut || None)
    }

    /// The same; when `limit` is over, `longer` says how much longer to wait, as often as it does.
    ///
    /// # Errors
    /// As [`Self::wait_hello`].
    pub fn await_hello(
        &self,
        limit: Duration,
        longer: &mut dyn FnMut() -> Option<Duration>,
    ) -> Result<(), NoAnswer> {
        match patiently(&lock(&self.hello), limit, longer) {
            Ok(Answer::Hello { protocol: PROTOCOL }) => Ok(()),
            Ok(Answer::Failed(refusal)) => Err(NoAnswer::Gone(refusal.message)),
            Ok(_) => Err(NoAnswer::Gone("its agent is of another version of nestor".into())),
            Err(RecvTimeoutError::Timeout) => Err(NoAnswer::TimedOut(limit)),
            Err(RecvTimeoutError::Disconnected) => Err(self.reason()),
        }
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// When the agent is gone or does not answer within `limit`.
    pub fn request(&self, request: Request, limit: Duration) -> Result<Answer, NoAnswer> {
        self.request_patiently(request, limit, &mut || None)
    }

    /// The same; when `limit` is over, `longer` says how much longer to wait, as often as it does.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub fn request_patiently(
        &self,
        request: Request,
        limit: Duration,
        longer: &mut dyn FnMut() -> Option<Duration>,
    ) -> Result<Answer, NoAnswer> {
        let (sender, receiver) = channel();
        let number = {
            let mut shared = lock(&self.shared);
            if let Some(reason) = &shared.gone {
                return Err(reason.clone());
            }
            let number = shared.next;
            shared.next += 1;
            shared.waiting.insert(number, sender);
            number
        };
        let written = match &mut *lock(&self.writer) {
            Some(writer) => write_frame(writer, &Envelope { number, body: request })
                .map(|bytes| self.watch.asked(bytes))
                .map_err(|e| e.to_string()),
            None => Err("the connection was closed".to_owned()),
        };
        if let Err(reason) = written {
            let mut shared = lock(&self.shared);
            shared.waiting.remove(&number);
            return Err(shared.gone.clone().unwrap_or(NoAnswer::Gone(reason)));
        }
        patiently(&receiver, limit, longer).map_err(|e| {
            lock(&self.shared).waiting.remove(&number);
            match e {
                RecvTimeoutError::Timeout => NoAnswer::TimedOut(limit),
                RecvTimeoutError::Disconnected => self.reason(),
            }
        })
    }

    /// Ends all requests in flight: the other side is known to be dead, for this reason.
    pub fn close(&self, reason: &str) {
        self.end(NoAnswer::Gone(reason.to_owned()));
    }

    /// Ends all requests in flight: the other side cannot go on without what has ended.
    pub fn give_up(&self, loss: Loss) {
        self.end(NoAnswer::GivenUp(loss));
    }

    fn end(&self, reason: NoAnswer) {
        let mut shared = lock(&self.shared);
        shared.gone.get_or_insert(reason);
        shared.waiting.clear();
    }

    /// Why nothing is asked of the other side any more, if it was given up.
    pub fn loss(&self) -> Option<Loss> {
        match &lock(&self.shared).gone {
            Some(NoAnswer::GivenUp(loss)) => Some(loss.clone()),
            _ => None,
        }
    }

    /// Closes the sending side, upon which the agent ends.
    pub fn hang_up(&self) {
        lock(&self.writer).take();
    }

    fn reason(&self) -> NoAnswer {
        let gone = lock(&self.shared).gone.clone();
        gone.unwrap_or_else(|| NoAnswer::Gone("its agent closed the connection".to_owned()))
    }
}

fn patiently<T>(
    receiver: &Receiver<T>,
    limit: Duration,
    longer: &mut dyn FnMut() -> Option<Duration>,
) -> Result<T, RecvTimeoutError> {
    let mut wait = limit;
    loop {
        match receiver.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => wait = longer().ok_or(RecvTimeoutError::Timeout)?,
            done => return done,
        }
    }
}

fn read_answers(mut reader: impl Read, shared: &Mutex<Shared>, watch: &dyn Watch) {
    let reason = loop {
        match read_frame::<Envelope<Answer>>(&mut reader) {
            Ok(envelope) => {
                if let Err(e) = check_answer(&envelope.body) {
                    break NoAnswer::Gone(format!("its agent's answer cannot be true: {e}"));
                }
                // It answers nothing. An agent that was greeted before its machine was kept does not greet again.
                if let (GREETING, Answer::Failed(Refusal { cause: Cause::GivenUp { loss }, .. })) =
                    (envelope.number, &envelope.body)
                {
                    break NoAnswer::GivenUp((**loss).clone());
                }
                watch.answered();
                let waiting = lock(shared).waiting.remove(&envelope.number);
                // The caller has stopped waiting for an answer that came after its time limit.
                if let Some(waiting) = waiting {
                    let _ = waiting.send(envelope.body);
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                break NoAnswer::Gone("its agent closed the connection".to_owned());
            }
            Err(e) => break NoAnswer::Gone(format!("its connection broke: {e}")),
        }
    };
    let mut shared = lock(shared);
    shared.gone.get_or_insert(reason);
    shared.waiting.clear();
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::message::read_frame;

    /// A connection, and what answers its first request with `Done` on demand.
    fn answered_when_told() -> (Connection, Sender<()>) {
        let (here, mut there) = UnixStream::pair().unwrap();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            let asked = read_frame::<Envelope<Request>>(&mut there).unwrap();
            told.recv().unwrap();
            write_frame(&mut there, &Envelope { number: asked.number, body: Answer::Done }).unwrap();
        });
        (Connection::new(here.try_clone().unwrap(), here), tell)
    }

    #[test]
    fn an_answer_after_the_limit_counts_if_it_was_to_be_awaited() {
        let (connection, tell) = answered_when_told();
        let mut asked = 0;
        let answer = connection.request_patiently(Request::Facts, Duration::ZERO, &mut || {
            asked += 1;
            if asked == 2 {
                tell.send(()).unwrap();
                return Some(Duration::from_secs(600));
            }
            Some(Duration::ZERO)
        });
        assert!(matches!(answer, Ok(Answer::Done)), "{answer:?}");
        assert_eq!(asked, 2);
    }

    #[test]
    fn an_agent_that_says_it_is_of_no_more_use_ends_the_requests_to_it() {
        // One of a kept machine has greeted whoever kept it.
        [true, false].into_iter().for_each(of_no_more_use);
    }

    fn of_no_more_use(greets: bool) {
        let (here, mut there) = UnixStream::pair().unwrap();
        let connection = Connection::new(here.try_clone().unwrap(), here);
        if greets {
            write_frame(
                &mut there,
                &Envelope { number: GREETING, body: Answer::Hello { protocol: PROTOCOL } },
            )
            .unwrap();
            connection.wait_hello(Duration::from_secs(600)).unwrap();
        }
        assert_eq!(connection.loss(), None);
        let agent = std::thread::spawn(move || {
            let _asked = read_frame::<Envelope<Request>>(&mut there).unwrap();
            let body = Answer::Failed(Refusal::given_up(Loss::NfsServer));
            write_frame(&mut there, &Envelope { number: GREETING, body }).unwrap();
            there
        });
        let lost = NoAnswer::GivenUp(Loss::NfsServer);
        assert_eq!(connection.request(Request::Facts, Duration::from_secs(600)).unwrap_err(), lost);
        assert_eq!(connection.loss(), Some(Loss::NfsServer));
        assert_eq!(connection.request(Request::Facts, Duration::from_secs(600)).unwrap_err(), lost);
        agent.join().unwrap();
    }

    #[test]
    fn otherwise_the_request_has_timed_out() {
        let (connection, _tell) = answered_when_told();
        let answer = connection.request(Request::Facts, Duration::ZERO);
        assert!(matches!(answer, Err(NoAnswer::TimedOut(Duration::ZERO))), "{answer:?}");
    }
}
