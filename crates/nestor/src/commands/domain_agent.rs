//! `nestor domain-agent`: what ssh is to another machine, this is to a domain of libvirt's.

use anyhow::Result;
use nestor_machine::serve_agent_in_domain;

/// Starts an agent in a domain and passes on what it hears and says, until standard input ends.
///
/// # Errors
/// The domain cannot be used, or the agent does not start in it.
#[expect(clippy::disallowed_methods, reason = "the agent writes frames, not text for a terminal")]
pub fn run(domain: &str) -> Result<()> {
    Ok(serve_agent_in_domain(domain, std::io::stdin(), std::io::stdout())?)
}
