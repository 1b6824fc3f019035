//! `nestor link`: modelled network links.

mod check;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand, ValueEnum};
use nestor_link::{Cut, Wire};
use nestor_link_server::control::{LinkRequest, LinkResponse};
use nestor_link_server::{ControlClient, LinkOptions, LinkTime, serve};
use nestor_stack::{BitRate, Bytes, Layer, LinkOptions as Figures, Percentage, TimeSpan, link_default};

use crate::arguments::Switch;
use crate::interrupt::stopped_by_signals;
use crate::output::print_json;

/// `nestor link …`
#[derive(Debug, Subcommand)]
pub enum LinkCommand {
    /// Serve a modelled link to two virtual machines or more, as a vhost-user-net interface to each
    #[command(
        after_help = "Example:\n  nestor link serve --lower /run/a.sock --upper /run/b.sock --rate 1gbit --delay 100us &\n  \
        qemu-system-x86_64 -object memory-backend-memfd,id=m,size=1G,share=on -machine q35,memory-backend=m \\\n    \
        -chardev socket,id=n,path=/run/a.sock -netdev vhost-user,id=n,chardev=n -device virtio-net-pci,netdev=n,vectors=0 …"
    )]
    Serve(LinkServeArguments),
    /// Check links against their model: rate, delay, losses, queue and order of a served link, in virtual time
    #[command(after_help = "Example:\n  nestor link check link:rate=100mbit:delay=5ms\n\n\
        The exit code is 1 if a link does not hold.")]
    Check(check::LinkCheckArguments),
    /// Control a served link
    Control {
        /// Its control socket
        #[arg(long, value_name = "SOCKET")]
        control: PathBuf,
        /// The command
        #[command(subcommand)]
        command: LinkControl,
    },
}

/// What can be asked of a served link.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum LinkControl {
    /// Switch the times of frames and their losses; the delay remains
    Timing {
        /// on or off
        state: Switch,
    },
    /// Say what was done so far
    Statistics,
    /// Log each frame from now on
    StartLog {
        /// Where
        file: PathBuf,
    },
    /// Close the log
    StopLog,
    /// End the server
    Quit,
}

/// Arguments of `nestor link serve`.
#[derive(Args, Debug)]
pub struct LinkServeArguments {
    /// Socket for the virtual machine at one end; made with mode 0600
    #[arg(long, value_name = "SOCKET")]
    pub lower: PathBuf,
    /// Socket for the virtual machine at the other end; several are behind a switch, each with a wire of its own
    #[arg(long, value_name = "SOCKET", required = true)]
    pub upper: Vec<PathBuf>,
    /// Socket for `nestor link control`
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Log each frame: when the interface took it, when it was on the wire and when it was delivered
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// How fast each direction carries frames
    #[arg(long, value_name = "RATE", default_value = link_default("rate"))]
    pub rate: BitRate,
    /// How long a frame is under way in each direction, besides the time that the rate takes
    #[arg(long, value_name = "TIME", default_value = link_default("delay"))]
    pub delay: TimeSpan,
    /// Bytes that an interface accepts ahead of the wire; the machine keeps the rest in its own memory
    #[arg(long, value_name = "SIZE", default_value = link_default("queue"))]
    pub queue: Bytes,
    /// Share of the frames that is lost in each direction
    #[arg(long, value_name = "SHARE", default_value = link_default("loss"))]
    pub loss: Percentage,
    /// When all frames begin to be lost, counted from the first frame that takes time
    #[arg(long, value_name = "TIME", requires = "cut_for")]
    pub cut_after: Option<TimeSpan>,
    /// How long they are lost
    #[arg(long, value_name = "TIME", requires = "cut_after")]
    pub cut_for: Option<TimeSpan>,
    /// Which frames are lost
    #[arg(long, value_name = "NUMBER", default_value = "0")]
    pub seed: u64,
    /// The link's clock: this machine's, or those of the virtual machines, which their QEMUs send on SOCKET.link-time
    #[arg(long = "clock", alias = "time", value_name = "CLOCK", default_value = "real")]
    pub time: LinkTimeArgument,
}

/// The time that a link lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LinkTimeArgument {
    /// This machine's.
    Real,
    /// The virtual machines'.
    Virtual,
}

/// Runs `nestor link …`.
///
/// # Errors
/// Sockets that cannot be made, or a server that does not answer.
pub fn run(command: LinkCommand) -> Result<ExitCode> {
    match command {
        LinkCommand::Serve(arguments) => serve(&options(arguments)?)?,
        LinkCommand::Check(arguments) => return check::run(&arguments),
        LinkCommand::Control { control, command } => {
            let request = match command {
                LinkControl::Timing { state } => LinkRequest::Timing { on: state == Switch::On },
                LinkControl::Statistics => LinkRequest::Statistics,
                LinkControl::StartLog { file } => LinkRequest::StartLog { path: std::path::absolute(file)? },
                LinkControl::StopLog => LinkRequest::StopLog,
                LinkControl::Quit => LinkRequest::Quit,
            };
            match ControlClient::connect(&control)?.request(&request)? {
                LinkResponse::Failed { reason } => return Err(anyhow!("the link refused: {reason}")),
                answer => print_json(&answer)?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What the layer `link` takes is what can be served.
fn options(arguments: LinkServeArguments) -> Result<LinkOptions> {
    let LinkServeArguments { rate, delay, queue, loss, .. } = arguments;
    let cut = arguments.cut_after.zip(arguments.cut_for);
    let cut = cut.map_or_else(String::new, |(after, lasts)| format!(":cut-after={after}:cut-for={lasts}"));
    let layer = format!("link:rate={rate}:delay={delay}:queue={queue}:loss={loss}{cut}");
    Ok(LinkOptions {
        wire: wire(&figures(&layer)?),
        seed: arguments.seed,
        sockets: [arguments.lower].into_iter().chain(arguments.upper).collect(),
        control: arguments.control,
        log: arguments.log,
        time: match arguments.time {
            LinkTimeArgument::Real => LinkTime::Real,
            LinkTimeArgument::Virtual => LinkTime::Virtual,
        },
        stop: stopped_by_signals()?,
    })
}

/// The options of a link, as it is written in a stack.
fn figures(layer: &str) -> Result<Figures> {
    let layer = Layer::parse(layer)?;
    let options = layer.link().ok_or_else(|| anyhow!("{layer} is not a link"))?;
    layer.check()?;
    Ok(options)
}

fn wire(options: &Figures) -> Wire {
    Wire {
        rate_bits_per_s: options.rate.get(),
        delay_ns: options.delay.get(),
        queue_bytes: options.queue.get(),
        loss: options.loss.share(),
        cut: options.cut.map(|cut| Cut { after_ns: cut.after.get(), lasts_ns: cut.lasts.get() }),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Serve {
        #[command(flatten)]
        arguments: LinkServeArguments,
    }

    fn served(arguments: &[&str]) -> Result<LinkOptions> {
        let begin = ["serve", "--lower", "a.sock", "--upper", "b.sock"];
        options(Serve::parse_from(begin.iter().chain(arguments)).arguments)
    }

    #[test]
    fn a_link_has_any_number_of_machines_at_its_upper_end() {
        let sockets = |more: &[&str]| {
            served(more).unwrap().sockets.iter().map(|s| s.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(sockets(&[]), ["a.sock", "b.sock"]);
        assert_eq!(sockets(&["--upper", "c.sock"]), ["a.sock", "b.sock", "c.sock"]);
    }

    #[test]
    fn a_served_link_has_what_stacks_take_and_their_defaults() {
        assert_eq!(served(&[]).unwrap().wire, wire(&figures("link").unwrap()));
        let written =
            served(&["--rate", "10mbit", "--delay", "2ms", "--queue", "64k", "--loss", "1%"]).unwrap();
        assert_eq!(written.wire, wire(&figures("link:rate=10mbit:delay=2ms:queue=64k:loss=1%").unwrap()));
        let cut = served(&["--cut-after", "1s", "--cut-for", "2s"]).unwrap().wire.cut;
        assert_eq!(cut, Some(Cut { after_ns: 1_000_000_000, lasts_ns: 2_000_000_000 }));
        for (option, value) in [("--rate", "1bit"), ("--delay", "0"), ("--queue", "1"), ("--loss", "51%")] {
            let said = served(&[option, value]).unwrap_err().to_string();
            assert!(said.contains(&format!("cannot be `{value}`")) && said.contains("takes"), "{said}");
        }
        insta::assert_snapshot!(served(&["--queue", "1", "--delay", "0"]).unwrap_err(), @"
        an option has an invalid value
          link:rate=1gbit:delay=0:queue=1:loss=0
                                ^ delay cannot be `0`
          delay takes a time from 1us to 10s; the default is 100us
        ");
    }
}
