//! Floods: bounded for the attacker, harmless for everybody else.

use crate::egress::bytes::tls;
use crate::egress::net::{hex, net, net_alone, sh};

const ALLOWED: &[&str] = &["www.example.org"];

fn perl(program: &str) -> Vec<String> {
    ["perl", "-e", program].map(str::to_owned).into()
}

/// Memory of a process in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn conntrack_flood() {
    let net = net();
    let flood = r#"
        use Socket; my $end = time + 4; my $n = 0;
        socket(my $s, PF_INET, SOCK_DGRAM, 0) or die;
        # On a busy machine for longer: it is to be a flood.
        while (time < $end || $n <= 50_000 && time < $end + 30) { for (1 .. 1000) { $n++;
            # To ever new places: other ports, port 53, and our own addresses.
            my $port = $n % 3 ? 53 : $n % 60000 + 1;
            my $place = $n % 3 == 2 ? pack('C4', 127, $n >> 16 & 255, $n >> 8 & 255, $n & 255) : pack('N', 0x5db8d700 + $n);
            send $s, 'x' x 20, 0, pack_sockaddr_in($port, $place);
        } }
        open my $f, '<', '/proc/sys/net/netfilter/nf_conntrack_count' or die; print "$n ", <$f>;
    "#;
    let ended = net.inside(ALLOWED, &perl(flood));
    let numbers: Vec<u64> = ended.out.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [sent, tracked] = numbers[..] else { panic!("{ended:?}") };
    assert!(sent > 50_000, "a flood: {ended:?}");
    // New ones in a second, times the seconds that one is kept, and as much again to spare.
    assert!(tracked < 60_000, "{tracked} entries of the host's table");
    assert_eq!(net.seen(), []);
}

#[test]
fn connect_flood_10k() {
    let net = net();
    let flood = r#"
        use Socket; my ($done, $reset) = (0, 0);
        for my $n (1 .. 10000) {
            socket(my $s, PF_INET, SOCK_STREAM, 0) or die "$!";
            connect $s, pack_sockaddr_in(1 + $n % 60000, pack('N', 0x5db8d742)) and $done++;
        }
        print $done;
    "#;
    let ended = net.inside(
        ALLOWED,
        &sh(&format!("perl -e '{}'; echo; curl -sS -m 10 http://www.example.org/canary", flood.replace('\'', "\""))),
    );
    assert!(ended.out.ends_with("canary www.example.org\n"), "and the gateway serves on: {ended:?}");
    assert!(net.arrived().iter().all(|seen| seen.address.to_string() != "93.184.215.66"));
    assert!(ended.count("raw_address") + ended.count("connection_limit") > 5000, "{}", ended.err);
}

#[test]
fn a_flood_of_server_names_is_recorded_in_part_and_counted_whole() {
    let net = net();
    // A greeting whose name is counted up in place: every connection presents another one.
    let greeting = hex(&tls(Some("00000.evil.example.net")));
    let flood = format!(
        r#"use Socket; $SIG{{PIPE}} = "IGNORE"; my $place = pack_sockaddr_in(443, inet_aton("www.example.org"));
        my $n = 0; my ($before, $after) = map {{ pack "H*", $_ }} split /3030303030/, "{greeting}";
        for my $i (1 .. 2000) {{ socket(my $s, PF_INET, SOCK_STREAM, 0) or die; connect $s, $place or next;
            syswrite $s, $before . sprintf("%05d", $i) . $after; sysread $s, my $end, 1; $n++ }} print $n"#
    );
    let ended = net.inside(ALLOWED, &perl(&flood));
    let tried: u64 = ended.out.parse().unwrap();
    assert!(tried >= 1500, "{ended:?}");
    assert_eq!(ended.count("sni_mismatch"), tried, "every attempt is counted");
    let records: Vec<_> = ended.records.iter().filter(|record| record["reason"] == "sni_mismatch").collect();
    let named = records.iter().filter(|record| !record["shown"].is_null()).count();
    assert_eq!(named, 1024, "as many are named as have room");
    assert!(records.len() < 1300, "{} records of {tried} attempts", records.len());
    assert!(records.iter().all(|record| record["shown"].is_null() == (record["shown_omitted"] == true)));
    assert_eq!(net.arrived(), []);
}

#[test]
fn half_open_flood() {
    let net = net();
    // Waits until the gateway has closed every connection, however long a busy machine takes to accept them.
    let flood = r#"
        use Socket; my @held; my $n = 0; my $place = pack_sockaddr_in(443, inet_aton("www.example.org"));
        for (1 .. 3000) { socket(my $s, PF_INET, SOCK_STREAM, 0) or last; connect $s, $place and $n++; push @held, $s }
        print "$n\n"; alarm 90; for my $s (@held) { sysread $s, my $nothing, 1 }
        print qx(curl -sS -m 10 http://www.example.org/canary);
    "#;
    let ended = net.inside(ALLOWED, &perl(flood));
    assert!(ended.out.ends_with("canary www.example.org\n"), "when their time is up there is room again: {ended:?}");
    assert!(ended.count("too_slow") >= 2000, "{} {}", ended.count("too_slow"), ended.err);
    assert!(ended.count("connection_limit") >= 500, "{}", ended.count("connection_limit"));
    assert!(net.arrived().iter().all(|seen| seen.port != 443), "nothing was connected for them");
}

#[test]
fn idle_hold_10k() {
    let net = net();
    let scratch = net.scratch();
    // More than a process may hold by itself, so several do.
    let hold = r#"
        use Socket; $| = 1; my @held; my $place = pack_sockaddr_in(7000, inet_aton("www.example.org"));
        for (1 .. 4) { next if fork; for (1 .. 2500) { socket(my $s, PF_INET, SOCK_STREAM, 0) or last; connect $s, $place; push @held, $s } sleep 20; exit }
        sleep 6; print "held\n"; sleep 10;
    "#;
    let arguments = ["--profile", "T0.H1.N1", "--allow", "tcp://www.example.org:7000"];
    let log = scratch.path().join("log");
    let mut running = net.background(&log, &arguments, &perl(hold));
    let gateway = running.child("ringfence-gateway");
    assert_eq!(running.line(), "held");
    let memory = resident(gateway);
    assert!(memory < 100 * 1024, "{memory} KiB");
    // Another sandbox is served all the same.
    let other = net.inside(ALLOWED, &sh("curl -sS -m 10 http://www.example.org/canary"));
    assert_eq!(other.out, "canary www.example.org\n", "{other:?}");
}

#[test]
fn bandwidth_hog() {
    let net = net_alone();
    let scratch = net.scratch();
    let script = "echo on; for i in 1 2 3 4; do curl -s -o /dev/null 'http://www.example.org/big?bytes=2000000000' & done; sleep 20";
    let arguments = ["--profile", "T0.H1.N1", "--allow", "www.example.org"];
    let mut hog = net.background(&scratch.path().join("log"), &arguments, &sh(script));
    assert_eq!(hog.line(), "on");
    std::thread::sleep(std::time::Duration::from_secs(1));
    let start = std::time::Instant::now();
    for _ in 0..3 {
        let ended = net.inside(ALLOWED, &sh("curl -sS -m 10 http://www.example.org/canary"));
        assert_eq!(ended.out, "canary www.example.org\n", "{ended:?}");
    }
    assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn conntrack_flood_through_the_listener() {
    let net = net();
    let flood = r#"
        use Socket; open my $f, '<', '/proc/net/tcp' or die;
        my ($port) = map { /^\s*\d+: 0100007F:([0-9A-F]{4}) 00000000:0000 0A/ ? hex $1 : () } <$f>;
        my ($end, $n) = (time + 5, 0);
        while (time < $end) { $n++;
            socket(my $s, PF_INET, SOCK_STREAM, 0) or die; setsockopt $s, SOL_SOCKET, SO_LINGER, pack 'll', 1, 0;
            bind $s, pack_sockaddr_in(0, pack 'C4', 127, 0, $n >> 8 & 255, $n & 255 || 2);
            connect $s, pack_sockaddr_in($port, INADDR_LOOPBACK) and syswrite $s, 'x'; close $s }
        sleep 2; open $f, '<', '/proc/sys/net/netfilter/nf_conntrack_count' or die; print "$n ", <$f>;
    "#;
    let ended = net.inside(ALLOWED, &perl(flood));
    let numbers: Vec<u64> = ended.out.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [tried, tracked] = numbers[..] else { panic!("{ended:?}") };
    assert!(tried > 1000 && tracked < 100, "{tried} tried, {tracked} entries stay");
}
