//! The command line of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::grant_args::GrantArguments;

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Listen on this socket, instead of one in this user's private directory; only this user may open it
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    pub(crate) socket: Option<PathBuf>,
    /// Listen on a TCP address instead; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", requires = "token_file")]
    pub(crate) listen: Option<SocketAddr>,
    /// The file with the tokens that clients send over TCP, one in each line; only its owner may read it
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(crate) token_file: Option<PathBuf>,
    /// Let --listen take an address that other machines reach: tokens and files then travel in the clear
    #[arg(long, requires = "listen")]
    pub(crate) dangerously_listen_beyond_loopback: bool,
    /// Let mounts that clients ask for hold credentials: whole homes, .ssh, .aws and the like, private keys
    #[arg(long)]
    pub(crate) dangerously_mount_secrets: bool,
    /// End when there has been no connection, sandbox or session for so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) exit_when_idle: Option<u64>,
    /// Write the line that says where the server listens to this open descriptor, instead of standard output
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=65_535))]
    pub(crate) ready_fd: Option<u32>,
    /// Sandboxes that one client may have at the same time
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = parse_count)]
    pub(crate) max_sandboxes: usize,
    /// Connections at the same time, `WebSockets` too; of several tokens none has more than half of them
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = parse_count)]
    pub(crate) max_connections: usize,
    /// Whom the gateway asks for names, instead of this host's resolver
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) dns_upstream: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) grants: GrantArguments,
    /// Print the `OpenAPI` document of what is served, and serve nothing
    #[arg(long)]
    pub(crate) openapi: bool,
}

fn parse_count(text: &str) -> Result<usize, &'static str> {
    text.parse::<usize>().ok().filter(|count| (1..=100_000).contains(count)).ok_or("a number from 1 to 100000")
}
