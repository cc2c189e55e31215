//! Services of one sample, in real sandboxes: who reaches whom, what is refused, what breaks, what is bounded. Attacks
//! are named by their attack.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at its own set-up")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use egress::{
    Attachment, GatewayProcess, Limits, Neighbour, Neighbours, Notice, Outcome, Protocol, Reason, Record, Settings,
    Switchboard,
};
use profile::{Egress, NetworkRules};
use sandbox::{Containers, Event, Exec, Image, Network, Overflow, Request, Running, Sandbox, Stream, User};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(30);

struct World {
    engine: Containers,
    gateway: GatewayProcess,
    notices: UnboundedReceiver<Notice>,
}

/// How everything is captured: by listeners that are passed, or relayed by the guest.
fn network() -> Network {
    match std::env::var("RINGFENCE_CAPTURE").as_deref() {
        Ok("relayed") => Network::Relayed,
        _ => Network::Captured,
    }
}

/// A service that runs.
struct Place {
    sandbox: Sandbox,
    attachment: Attachment,
}

fn neighbour(service: &str, ports: &[u16]) -> Neighbour {
    Neighbour { service: service.into(), aliases: Vec::new(), ports: ports.to_vec() }
}

impl World {
    async fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Nobody answers there: what is inside needs nobody outside.
        let settings = Settings { upstream: Some("127.0.0.1:9".parse().unwrap()), limits: Limits::default() };
        let own = || env!("CARGO_BIN_EXE_gateway").into();
        let program = std::env::var_os("RINGFENCE_GATEWAY").unwrap_or_else(own);
        let (gateway, notices) = GatewayProcess::start_program(Path::new(&program), settings, None).await.unwrap();
        let run = format!("services-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self { engine: Containers::start(run).unwrap(), gateway, notices }
    }

    async fn place(&self, board: &Arc<Switchboard>, name: &str, egress: &Egress, neighbours: Vec<Neighbour>) -> Place {
        let request = Request {
            image: Image::Host,
            begin_with: None,
            system: sandbox::System::AsLeft,
            limits: None,
            disk: 64 << 20,
            mounts: Vec::new(),
            allow_setuid: false,
            network: network(),
        };
        let (sandbox, capture) = self.engine.create_captured(request).await.unwrap();
        let through = Arc::clone(board) as Arc<dyn Neighbours>;
        let attached = self.gateway.attach_among(name, egress, capture, neighbours, through).await;
        board.register(name, &sandbox);
        Place { sandbox, attachment: attached.unwrap() }
    }

    /// Two places at N2: `a`, which may reach this port of `b`.
    async fn two(&self, port: u16) -> (Arc<Switchboard>, Place, Place) {
        let board = Switchboard::new();
        let b = self.place(&board, "b", &Egress::Nothing, Vec::new()).await;
        let a = self.place(&board, "a", &Egress::Nothing, vec![neighbour("b", &[port])]).await;
        (board, a, b)
    }

    /// The next record that fits.
    async fn record(&mut self, fits: impl Fn(&Record) -> bool) -> Record {
        let search = async {
            loop {
                match self.notices.recv().await.unwrap() {
                    Notice::Record(record) if fits(&record) => return record,
                    _ => {}
                }
            }
        };
        timeout(SOON, search).await.unwrap()
    }
}

fn command(argv: &[&str]) -> Exec {
    Exec {
        argv: argv.iter().map(|&argument| argument.to_owned()).collect(),
        env: Vec::new(),
        cwd: None,
        user: User::Default,
        pty: None,
        timeout_ms: Some(60_000),
        max_output: None,
    }
}

async fn perl(place: &Place, program: &str) -> String {
    let program = format!("use IO::Socket::IP; use IO::Select; use Digest::MD5; $| = 1; {program}");
    let exec = command(&["perl", "-e", &program]);
    let completed = place.sandbox.exec(exec, b"", 1 << 20, Overflow::KeepTail).await.unwrap();
    let said = String::from_utf8_lossy(&completed.stdout).into_owned();
    said + &String::from_utf8_lossy(&completed.stderr)
}

/// What comes back from a name and port; `no name`, `reset` or the answer.
async fn fetch(place: &Place, name: &str, port: u16) -> String {
    let program = format!(
        "my $s = IO::Socket::IP->new(PeerHost => '{name}', PeerPort => {port}, Timeout => 5) or do {{ print $! =~ /reset|refused/i || $@ =~ /reset|refused/i ? 'reset' : 'no name'; exit }}; \
         my $all = ''; while (1) {{ my $n = sysread $s, my $part, 4096; if (!defined $n) {{ print 'reset'; exit }} last unless $n; $all .= $part }} print $all"
    );
    perl(place, &program).await
}

/// A server that forks for every client, which it finds in `$c`; it has said that it listens when this returns.
async fn serve(place: &Place, address: &str, port: u16, program: &str) -> Running {
    let script = format!(
        "use IO::Socket::IP; $| = 1; $SIG{{CHLD}} = 'IGNORE'; \
         my $l = IO::Socket::IP->new(Listen => 1000, LocalHost => '{address}', LocalPort => {port}, ReuseAddr => 1) or die $@; \
         print \"on\\n\"; while (my $c = $l->accept) {{ next if fork; close $l; binmode $c; {program}; exit }}"
    );
    let exec = Exec { timeout_ms: None, ..command(&["perl", "-e", &script]) };
    let mut running = place.sandbox.start(exec).unwrap();
    line(&mut running).await;
    running
}

async fn line(running: &mut Running) -> String {
    let mut said = Vec::new();
    while !said.ends_with(b"\n") {
        match timeout(SOON, running.next()).await.unwrap() {
            Event::Output(Stream::Out, bytes) => said.extend(bytes),
            other => panic!("{other:?} {}", String::from_utf8_lossy(&said)),
        }
    }
    String::from_utf8_lossy(&said).into_owned()
}

const ECHO: &str = "while (sysread $c, my $part, 65536) { my $o = 0; while ($o < length $part) { $o += syswrite $c, $part, 65536, $o } }";

#[tokio::test]
async fn services_of_one_network_reach_each_other_and_no_other() {
    let mut world = World::new().await;
    let board = Switchboard::new();
    let aliased = Neighbour { service: "db".into(), aliases: vec!["postgres_1".into()], ports: vec![5432] };
    let db = world.place(&board, "db", &Egress::Nothing, vec![neighbour("web", &[8080])]).await;
    let web = world.place(&board, "web", &Egress::Nothing, vec![aliased, neighbour("mute", &[])]).await;
    let alone = world.place(&board, "alone", &Egress::Nothing, Vec::new()).await;
    let _db = serve(&db, "0.0.0.0", 5432, "print $c 'from db'").await;
    let _other = serve(&db, "0.0.0.0", 5433, "print $c 'private'").await;
    let _web = serve(&web, "127.0.0.1", 8080, "print $c 'from web'").await;
    assert_eq!(fetch(&web, "db", 5432).await, "from db");
    let record = world.record(|record| record.service.is_some() && record.protocol == Protocol::Tcp).await;
    let seen = (record.verdict, record.name.as_deref(), record.service.as_deref(), record.port, record.received);
    assert_eq!(seen, (Outcome::Allowed, Some("db"), Some("db"), Some(5432), 7));
    assert_eq!((record.rule.as_deref(), record.used), (Some("service db"), None));
    assert_eq!(fetch(&web, "POSTGRES_1.", 5432).await, "from db");
    assert_eq!(fetch(&db, "web", 8080).await, "from web", "one that listens on loopback only");
    // What is not declared is refused, though somebody listens there.
    assert_eq!(fetch(&web, "db", 5433).await, "reset");
    let record = world.record(|record| record.reason == Some(Reason::ServicePort)).await;
    assert_eq!((record.verdict, record.service.as_deref(), record.port), (Outcome::Refused, Some("db"), Some(5433)));
    assert_eq!(fetch(&web, "mute", 80).await, "reset", "none declared is none");
    world
        .record(|record| record.reason == Some(Reason::ServicePort) && record.service.as_deref() == Some("mute"))
        .await;
    // Who is on no common network has no name.
    for (place, name) in [(&alone, "db"), (&alone, "web"), (&web, "alone"), (&db, "postgres_1"), (&db, "mute")] {
        assert_eq!(fetch(place, name, 5432).await, "no name", "{name}");
    }
    let record = world.record(|record| record.sandbox == "alone" && record.reason.is_some()).await;
    assert_eq!((record.service, record.verdict), (None, Outcome::Refused));
    let counters = world.gateway.detach(web.attachment).await.unwrap();
    assert_eq!((counters.services, counters.connections), (2, 0), "{counters:?}");
    assert_ne!(fetch(&web, "db", 5432).await, "from db", "detached is without network");
}

#[tokio::test]
async fn sibling_samples_services() {
    let world = World::new().await;
    let (one, two) = (Switchboard::new(), Switchboard::new());
    let known = || vec![neighbour("db", &[5432])];
    let a = world.place(&one, "a", &Egress::Nothing, known()).await;
    let db_of_one = world.place(&one, "db", &Egress::Nothing, Vec::new()).await;
    let b = world.place(&two, "b", &Egress::Nothing, known()).await;
    let db_of_two = world.place(&two, "db", &Egress::Nothing, Vec::new()).await;
    let vault = world.place(&two, "vault", &Egress::Nothing, Vec::new()).await;
    let _one = serve(&db_of_one, "0.0.0.0", 5432, "print $c 'one'").await;
    let _two = serve(&db_of_two, "0.0.0.0", 5432, "print $c 'two'").await;
    let _vault = serve(&vault, "0.0.0.0", 5432, "print $c 'secret'").await;
    assert_eq!((fetch(&a, "db", 5432).await.as_str(), fetch(&b, "db", 5432).await.as_str()), ("one", "two"));
    assert_eq!(fetch(&a, "vault", 5432).await, "no name");
    // The same address means another thing elsewhere, or nothing.
    assert_eq!(fetch(&a, "198.18.1.0", 5432).await, "one");
    assert_eq!(fetch(&vault, "198.18.1.0", 5432).await, "reset");
}

#[tokio::test]
async fn service_address_forged() {
    let mut world = World::new().await;
    let (_board, a, b) = world.two(7000).await;
    let _server = serve(&b, "0.0.0.0", 7000, "print $c 'served'").await;
    assert_eq!(fetch(&a, "198.18.1.0", 7000).await, "served", "its address is the name");
    for (address, reason) in [
        ("198.18.1.1", Reason::NoSuchName),
        ("198.18.255.9", Reason::NoSuchName),
        ("198.18.0.2", Reason::NoSuchName),
        ("10.0.0.1", Reason::NoNetwork),
    ] {
        assert_eq!(fetch(&a, address, 7000).await, "reset", "{address}");
        world.record(|record| record.reason == Some(reason)).await;
    }
}

#[tokio::test]
async fn service_udp() {
    let world = World::new().await;
    let (_board, a, b) = world.two(7000).await;
    let listen = "use IO::Socket::IP; $| = 1; my $l = IO::Socket::IP->new(LocalHost => '0.0.0.0', LocalPort => 7000, Proto => 'udp') or die; print \"on\\n\"; recv $l, my $part, 99, 0; print \"$part\\n\"";
    let mut server = b.sandbox.start(Exec { timeout_ms: None, ..command(&["perl", "-e", listen]) }).unwrap();
    line(&mut server).await;
    let send = "my $s = IO::Socket::IP->new(PeerHost => 'b', PeerPort => 7000, Proto => 'udp') or die; print send($s, 'hello', 0) ? 'sent ' : 'not sent '; print IO::Select->new($s)->can_read(1) ? 'answer' : 'silence'";
    assert!(perl(&a, send).await.ends_with("silence"));
    assert!(timeout(Duration::from_millis(300), server.next()).await.is_err(), "nothing arrived");
}

#[tokio::test]
async fn a_services_name_hides_whatever_has_it_outside() {
    let mut world = World::new().await;
    let board = Switchboard::new();
    let name = "db.example.org";
    let rules = NetworkRules {
        allow: [name.parse().unwrap()].into(),
        deny: ["*.example.org".parse().unwrap()].into(),
        ..NetworkRules::default()
    };
    let b = world.place(&board, "b", &Egress::Nothing, Vec::new()).await;
    let _server = serve(&b, "0.0.0.0", 443, "print $c 'no TLS'").await;
    for (at, egress) in [Egress::Listed { rules: rules.clone() }, Egress::Everything { rules }].iter().enumerate() {
        let known = Neighbour { service: "b".into(), aliases: vec![name.into()], ports: vec![443] };
        let a = world.place(&board, &format!("a{at}"), egress, vec![known]).await;
        assert_eq!(fetch(&a, name, 443).await, "no TLS");
        let record = world.record(|record| record.protocol == Protocol::Dns).await;
        assert_eq!((record.name.as_deref(), record.service.as_deref()), (Some(name), Some("b")));
        // Other rules change nothing of it.
        world.gateway.replace(a.attachment, &Egress::Nothing).await.unwrap();
        assert_eq!(fetch(&a, name, 443).await, "no TLS");
        world.gateway.detach(a.attachment).await.unwrap();
    }
}

#[tokio::test]
async fn a_service_on_its_own_address_is_reached() {
    let mut world = World::new().await;
    let (_board, a, b) = world.two(7000).await;
    assert_eq!(fetch(&a, "b", 7000).await, "reset", "nobody listens yet");
    let record = world.record(|record| record.reason.is_some()).await;
    assert_eq!((record.verdict, record.reason), (Outcome::Failed, Some(Reason::HostRefused)));
    let _server = serve(&b, "198.18.0.1", 7000, "print $c 'here'").await;
    assert_eq!(fetch(&a, "b", 7000).await, "here");
}

#[tokio::test]
async fn much_passes_both_ways_between_services() {
    let mut world = World::new().await;
    let (_board, a, b) = world.two(7000).await;
    let _server = serve(&b, "0.0.0.0", 7000, ECHO).await;
    let start = Instant::now();
    let client = "my $s = IO::Socket::IP->new(PeerHost => 'b', PeerPort => 7000) or die; my $sent = Digest::MD5->new; my $got = Digest::MD5->new; \
        my $block = join '', map { chr(rand 256) } 1 .. 65536; $sent->add($block) for 1 .. 1024; \
        if (!fork) { for (1 .. 1024) { my $o = 0; while ($o < 65536) { my $n = syswrite $s, $block, 65536 - $o, $o or die; $o += $n } } shutdown $s, 1; exit } \
        my $all = 0; while (my $n = sysread $s, my $part, 65536) { $all += $n; $got->add($part) } print $all, $sent->digest eq $got->digest ? ' same' : ' other'";
    assert_eq!(perl(&a, client).await, format!("{} same", 64 << 20));
    let rate = 64.0 / start.elapsed().as_secs_f64();
    let record = world.record(|record| record.protocol == Protocol::Tcp).await;
    assert_eq!((record.sent, record.received), (64 << 20, 64 << 20));
    assert!(rate > 4.0, "{rate} MiB/s both ways");
}

#[tokio::test]
async fn an_end_is_an_end_between_services() {
    let world = World::new().await;
    // The end of what the client sends is one for the server, which answers after it.
    let (_board, asks, answers) = world.two(7001).await;
    let _late = serve(&answers, "0.0.0.0", 7001, "local $/; my $all = <$c>; print $c length $all").await;
    let half = "my $s = IO::Socket::IP->new(PeerHost => 'b', PeerPort => 7001) or die; print $s 'x' x 100000; $s->flush; shutdown $s, 1; local $/; print <$s>";
    assert_eq!(perl(&asks, half).await, "100000");
    // And the other way round: a server that has ended still hears.
    let (_board, speaks, hears) = world.two(7002).await;
    let program = "print $c 'bye'; $c->flush; shutdown $c, 1; local $/; print STDOUT <$c>, qq(\\n)";
    let mut first = serve(&hears, "0.0.0.0", 7002, program).await;
    let then = "my $s = IO::Socket::IP->new(PeerHost => 'b', PeerPort => 7002) or die; local $/; print <$s>; syswrite $s, 'still heard'; close $s";
    assert_eq!(perl(&speaks, then).await, "bye");
    assert_eq!(line(&mut first).await, "still heard\n");
}

#[tokio::test]
async fn a_service_that_breaks_off_is_seen_as_such() {
    let world = World::new().await;
    let (board, a, b) = world.two(7000).await;
    // A reset: closing with a linger of zero.
    let _server = serve(
        &b,
        "0.0.0.0",
        7000,
        "syswrite $c, 'part'; sysread $c, my $x, 1; setsockopt $c, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0); close $c",
    )
    .await;
    // Even where the client has ended its side, so that an end would look complete.
    for end in ["", "shutdown $s, 1;"] {
        let client = format!(
            "my $s = IO::Socket::IP->new(PeerHost => 'b', PeerPort => 7000) or die; sysread $s, my $x, 4; print $x; syswrite $s, 'go'; {end} print defined(sysread $s, $x, 4) ? ' end' : ' reset'"
        );
        assert_eq!(perl(&a, &client).await, "part reset", "{end}");
    }
    // A sandbox that ends in between.
    let exec = command(&[
        "perl",
        "-e",
        "use IO::Socket::IP; $| = 1; my $s = IO::Socket::IP->new(PeerHost => 'b', PeerPort => 7000) or die; sysread $s, my $x, 4; print qq($x\\n); print defined(sysread $s, $x, 4) ? qq(end\\n) : qq(reset\\n)",
    ]);
    let mut client = a.sandbox.start(exec).unwrap();
    assert_eq!(line(&mut client).await, "part\n");
    let start = Instant::now();
    b.sandbox.stop().await.unwrap();
    assert_eq!(line(&mut client).await, "reset\n");
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(fetch(&a, "b", 7000).await, "reset", "one that is gone");
    board.forget("b");
    assert_eq!(fetch(&a, "b", 7000).await, "reset");
}

#[tokio::test]
async fn a_client_that_breaks_off_is_seen_as_such() {
    let world = World::new().await;
    let (_board, a, b) = world.two(7000).await;
    let say = "syswrite $c, 'hi'; my $n = sysread $c, my $x, 9; print STDOUT defined $n ? qq(end $n\\n) : qq(reset\\n)";
    let mut server = serve(&b, "0.0.0.0", 7000, say).await;
    let connect = "my $s = IO::Socket::IP->new(PeerHost => 'b', PeerPort => 7000) or die; sysread $s, my $x, 2;";
    perl(&a, &format!("{connect} close $s")).await;
    assert_eq!(line(&mut server).await, "end 0\n");
    // Its network is taken away while it is connected.
    let exec = command(&["perl", "-e", &format!("use IO::Socket::IP; $| = 1; {connect} print qq(on\\n); sleep 60")]);
    let mut client = a.sandbox.start(exec).unwrap();
    line(&mut client).await;
    world.gateway.detach(a.attachment).await.unwrap();
    assert_eq!(line(&mut server).await, "reset\n");
}

#[tokio::test]
async fn two_hundred_connections_at_the_same_time() {
    let world = World::new().await;
    let (_board, a, b) = world.two(7000).await;
    let _server = serve(&b, "0.0.0.0", 7000, ECHO).await;
    let client = "my @s = map { IO::Socket::IP->new(PeerHost => '198.18.1.0', PeerPort => 7000) or die $@ } 1 .. 200; \
        for my $i (0 .. $#s) { syswrite $s[$i], sprintf '%08d', $i } my $ok = 0; \
        for my $i (0 .. $#s) { my $all = ''; while (length $all < 8) { sysread $s[$i], $all, 8, length $all or last } $ok++ if $all eq sprintf '%08d', $i } print $ok";
    assert_eq!(perl(&a, client).await, "200");
    let counters = world.gateway.detach(a.attachment).await.unwrap();
    assert_eq!((counters.services, counters.refused), (200, 0), "{counters:?}");
}

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::test]
async fn service_never_reads() {
    let world = World::new().await;
    let (_board, a, b) = world.two(7000).await;
    let server = "use IO::Socket::IP; $| = 1; my $l = IO::Socket::IP->new(Listen => 1000, LocalHost => '0.0.0.0', LocalPort => 7000) or die; print \"on\\n\"; my @c; while (1) { push @c, scalar $l->accept }";
    let mut hostile = b.sandbox.start(Exec { timeout_ms: None, ..command(&["perl", "-e", server]) }).unwrap();
    line(&mut hostile).await;
    let before = resident();
    // Forty clients write until nobody takes more for a second.
    let client = "my @s = map { IO::Socket::IP->new(PeerHost => 'b', PeerPort => 7000, Blocking => 1) or die } 1 .. 40; $_->blocking(0) for @s; \
        my $block = 'x' x 65536; my $all = 0; my $last = time; my $select = IO::Select->new(@s); \
        while (time - $last < 2) { for my $s ($select->can_write(0.2)) { my $n = syswrite $s, $block; if ($n) { $all += $n; $last = time } } } print $all";
    let taken: usize = perl(&a, client).await.parse().unwrap();
    assert!(taken < 40 * (24 << 20), "each is held back: {taken}");
    let grown = resident().saturating_sub(before);
    assert!(grown < 96 << 20, "the runner grew by {grown}");
    // Whoever asked is gone: so are his connections there.
    world.gateway.detach(a.attachment).await.unwrap();
    let count =
        "open my $f, '<', '/proc/net/tcp' or die; print scalar grep { /^\\s*\\d+: \\w+:1B58 \\w+:\\w+ 01/ } <$f>";
    let deadline = Instant::now() + SOON;
    while perl(&b, count).await != "0" {
        assert!(Instant::now() < deadline, "connections are left");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn service_connect_flood() {
    let mut world = World::new().await;
    let (_board, a, b) = world.two(7000).await;
    let _server = serve(&b, "0.0.0.0", 7000, "sleep 60").await;
    let client = "my @s = grep { $_ } map { IO::Socket::IP->new(PeerHost => '198.18.1.0', PeerPort => 7000) } 1 .. 700; sleep 2; \
        my $reset = 0; for my $s (@s) { $s->blocking(0); my $n = sysread $s, my $x, 1; $reset++ if !defined $n && !$!{EAGAIN} } print scalar(@s), ' ', $reset";
    let said = perl(&a, client).await;
    let (_, reset) = said.split_once(' ').unwrap();
    assert!(reset.parse::<u32>().unwrap() >= 150, "{said}");
    world.record(|record| record.reason == Some(Reason::ConnectionLimit)).await;
    // Nobody else is held up by it.
    let (_board, c, d) = world.two(7001).await;
    let _other = serve(&d, "0.0.0.0", 7001, "print $c 'well'").await;
    assert_eq!(fetch(&c, "b", 7001).await, "well");
}

#[tokio::test]
async fn names_that_are_none_or_two_are_refused() {
    let world = World::new().await;
    let board = Switchboard::new();
    let place = world.place(&board, "x", &Egress::Nothing, Vec::new()).await;
    for neighbours in [vec![neighbour("a b", &[1])], vec![neighbour("a", &[1]), neighbour("A", &[2])]] {
        let through = Arc::clone(&board) as Arc<dyn Neighbours>;
        let none = sandbox::Capture::Passed(Vec::new());
        let refused = world.gateway.attach_among("y", &Egress::Nothing, none, neighbours, through).await;
        assert!(matches!(refused, Err(egress::GatewayError::Refused(why)) if why.contains("name")), "said by name");
    }
    place.sandbox.stop().await.unwrap();
}
