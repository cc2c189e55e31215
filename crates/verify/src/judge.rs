//! From outcomes to the profile that they show. Pure.

use profile::{Isolation, Network, Profile, Tooling};

use crate::probe::{Axis, Verdict};
use crate::report::{Conclusion, Observed, Probed};

fn any(probes: &[&Probed], verdict: Verdict) -> bool {
    probes.iter().any(|probed| probed.verdict == verdict)
}

/// The profile that the probes of one zone show, of at most what was planned.
pub(crate) fn observe(planned: Profile, probes: &[&Probed]) -> Observed {
    let of = |axis: Axis| -> Vec<&Probed> { probes.iter().copied().filter(|probed| probed.axis == axis).collect() };
    let (tooling, host, network) = (of(Axis::Tooling), of(Axis::Host), of(Axis::Network));
    Observed {
        tooling: level(planned.tooling, Tooling::T0, &tooling),
        // One control less, and nobody can say what the wall is worth.
        isolation: level(planned.isolation, Isolation::H0, &host),
        network: level(planned.network, weakest(planned.network, &network), &network),
    }
}

fn level<L>(planned: L, weakest: L, probes: &[&Probed]) -> Option<L> {
    if any(probes, Verdict::Fail) {
        return Some(weakest);
    }
    (!any(probes, Verdict::Unknown) && any(probes, Verdict::Pass)).then_some(planned)
}

/// What a network is where something failed. If only listed names were reached although none should be, it is a list.
fn weakest(planned: Network, probes: &[&Probed]) -> Network {
    let failed = |id: &str| probes.iter().any(|probed| probed.id == id && probed.verdict == Verdict::Fail);
    let only_listed = probes
        .iter()
        .filter(|probed| probed.verdict == Verdict::Fail)
        .all(|probed| matches!(probed.id, "allowed_http" | "allowed_tls"));
    match planned {
        // Less than was granted is still no more than that.
        Network::N1 if only_listed => Network::N2,
        Network::N2 if only_listed && (failed("allowed_http") || failed("allowed_tls")) => Network::N1,
        Network::N0 | Network::N1 | Network::N2 => Network::N0,
    }
}

/// How a verification ends.
pub(crate) fn conclude(probes: &[Probed]) -> Conclusion {
    let has = |verdict| probes.iter().any(|probed| probed.verdict == verdict);
    if has(Verdict::Fail) {
        Conclusion::Downgrade
    } else if has(Verdict::Unknown) || !has(Verdict::Pass) {
        Conclusion::Unproven
    } else {
        Conclusion::AsPlanned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Control;

    fn probed(id: &'static str, axis: Axis, verdict: Verdict) -> Probed {
        Probed { id, control: Control::Names, axis, zones: Vec::new(), verdict, evidence: String::new() }
    }

    fn observed(planned: &str, host: Verdict, network: &[(&'static str, Verdict)]) -> String {
        let mut probes = vec![probed("t", Axis::Tooling, Verdict::Pass), probed("h", Axis::Host, host)];
        probes.extend(network.iter().map(|(id, verdict)| probed(id, Axis::Network, *verdict)));
        let all: Vec<&Probed> = probes.iter().collect();
        observe(planned.parse().unwrap(), &all).to_string()
    }

    #[test]
    fn a_letter_holds_only_if_everything_of_it_does() {
        use Verdict::{Fail, Pass, Unclaimed, Unknown};
        assert_eq!(observed("T0.H1.N1", Pass, &[("raw_http", Pass), ("udp", Unclaimed)]), "T0.H1.N1");
        assert_eq!(observed("T0.H1.N1", Fail, &[("raw_http", Pass)]), "T0.H0.N1");
        assert_eq!(observed("T0.H1.N1", Unknown, &[("raw_http", Pass)]), "T0.H?.N1");
        assert_eq!(observed("T0.H1.N1", Unclaimed, &[("raw_http", Pass)]), "T0.H?.N1", "nothing shows it");
        assert_eq!(observed("T0.H1.N1", Pass, &[("raw_http", Fail)]), "T0.H1.N0");
        assert_eq!(observed("T0.H1.N2", Pass, &[("allowed_http", Fail), ("raw_http", Pass)]), "T0.H1.N1");
        assert_eq!(observed("T0.H1.N2", Pass, &[("allowed_http", Fail), ("raw_http", Fail)]), "T0.H1.N0");
        assert_eq!(observed("T0.H1.N1", Pass, &[("allowed_http", Fail), ("raw_http", Pass)]), "T0.H1.N2");
    }

    #[test]
    fn what_is_not_shown_is_not_proven() {
        use Verdict::{Fail, Pass, Unclaimed, Unknown};
        let conclude = |verdicts: &[Verdict]| {
            conclude(&verdicts.iter().map(|verdict| probed("x", Axis::Host, *verdict)).collect::<Vec<_>>())
        };
        assert_eq!(conclude(&[Pass, Unclaimed]), Conclusion::AsPlanned);
        assert_eq!(conclude(&[Pass, Unknown]), Conclusion::Unproven);
        assert_eq!(conclude(&[Pass, Unknown, Fail]), Conclusion::Downgrade);
        assert_eq!(conclude(&[]), Conclusion::Unproven);
    }
}
