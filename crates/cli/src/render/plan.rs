//! A plan as a page: what is enforced, granted, recorded, and what remains.

use profile::plan::{Control, ZonePlan};
use profile::{Egress, Explanation, Kind, NetworkRules, Plan, Provider, Runs, Sensitivity, Unmet};
use serde_json::json;

use crate::printer::{Look, Page, Printer, Span, plain, span};
use crate::table::{INDENT, indented, page_width, table, wrap};

/// Prints a plan with its hash.
pub(crate) fn plan(plan: &Plan, printer: &mut Printer) {
    if printer.json() {
        printer.data(&json!({"plan": plan, "plan_sha256": plan.hash()}));
        return;
    }
    printer.page(&page(plan, &[]));
}

/// Prints what a profile would mean here.
pub(crate) fn explanation(explanation: &Explanation, printer: &mut Printer) {
    if printer.json() {
        // Statements that are still missing would change the plan, so it has no hash yet.
        let hash = explanation.required.is_empty().then(|| explanation.plan.hash());
        printer.data(&json!({
            "schema": explanation.schema,
            "required": explanation.required,
            "plan": explanation.plan,
            "plan_sha256": hash,
        }));
        return;
    }
    printer.page(&page(&explanation.plan, &explanation.required));
}

/// Prints that a document is sound, and what a reader should know of it.
pub(crate) fn checked(origin: &str, plan: &Plan, printer: &mut Printer) {
    if printer.json() {
        printer.data(&json!({"schema": "ringfence.check/1", "origin": origin, "profile": plan.profile, "provider": plan.provider, "notes": plan.notes}));
        return;
    }
    let mut page: Page = vec![vec![
        span(Look::Good, "ok"),
        plain(": "),
        span(Look::Strong, origin),
        plain(format!(" is a sound document for {} on {}", plan.profile, plan.provider)),
    ]];
    page.extend(plan.notes.iter().map(|note| vec![span(Look::Faint, "  note: "), plain(note.clone())]));
    printer.page(&page);
}

fn page(plan: &Plan, required: &[Unmet]) -> Page {
    let width = page_width();
    let mut page = head(plan);
    section(&mut page, "Required before it runs", &required_rows(required), width);
    section(&mut page, "Enforced", &plan.controls.iter().map(control_row).collect::<Vec<_>>(), width);
    section(&mut page, "Network", &network_rows(plan), width);
    section(&mut page, "Granted", &granted_rows(plan), width);
    section(&mut page, "Withheld", &withheld_rows(plan), width);
    section(&mut page, "Services", &service_rows(plan), width);
    section(&mut page, "Settings", &settings_rows(plan), width);
    list(&mut page, "Recorded", &plan.recorded, width);
    let remains =
        plan.residual.iter().map(|residual| vec![span(Look::Doubtful, residual.id), plain(residual.text.clone())]);
    section(&mut page, "Remains", &remains.collect::<Vec<_>>(), width);
    list(&mut page, "Notes", &plan.notes, width);
    if !can_run(plan) {
        page.push(Vec::new());
        page.push(vec![span(Look::Doubtful, "This version plans this, and cannot run it yet.")]);
    }
    if required.is_empty() {
        page.push(Vec::new());
        page.push(vec![span(Look::Faint, format!("plan sha256 {}", plan.hash()))]);
    }
    page
}

/// What `run` and `eval` do today: the host's own process, the embedded engine, and Docker, which has services too.
fn can_run(plan: &Plan) -> bool {
    match plan.provider {
        Provider::Local | Provider::Docker => true,
        Provider::Container => plan.services.is_empty(),
        Provider::K8s | Provider::Proxmox | Provider::Qemu => false,
    }
}

fn head(plan: &Plan) -> Page {
    let profile = plan.profile;
    let mut page = vec![
        vec![span(Look::Strong, profile.to_string()), plain(format!(" on {}", plan.provider))],
        vec![plain(format!("  {}  {}", profile.tooling, profile.tooling.summary()))],
        vec![plain(format!("  {}  {}", profile.isolation, profile.isolation.summary()))],
        vec![plain(format!("  {}  {}", profile.network, profile.network.summary()))],
        vec![plain("  kernel boundary: "), plain(plan.kernel_boundary.summary())],
    ];
    if let Some(image) = &plan.image {
        page.push(vec![plain(format!("  image: {}", image.reference))]);
    }
    page
}

fn section(page: &mut Page, title: &str, rows: &[Vec<Span>], width: usize) {
    if rows.is_empty() {
        return;
    }
    page.push(Vec::new());
    page.push(vec![span(Look::Strong, title)]);
    page.extend(indented(table(&[], rows, width - INDENT)));
}

fn list(page: &mut Page, title: &str, items: &[String], width: usize) {
    if items.is_empty() {
        return;
    }
    page.push(Vec::new());
    page.push(vec![span(Look::Strong, title)]);
    for item in items {
        for (index, line) in wrap(item, width.saturating_sub(4)).into_iter().enumerate() {
            page.push(vec![plain(if index == 0 { "  - " } else { "    " }), plain(line)]);
        }
    }
}

fn required_rows(required: &[Unmet]) -> Vec<Vec<Span>> {
    let row = |unmet: &Unmet| {
        let hint = unmet.hint.as_deref().unwrap_or_default();
        vec![span(Look::Bad, unmet.control.clone()), plain(unmet.reason.clone()), span(Look::Faint, hint)]
    };
    required.iter().map(row).collect()
}

fn control_row(control: &Control) -> Vec<Span> {
    vec![span(Look::Good, control.id), plain(control.promise.clone()), span(Look::Faint, control.mechanism.clone())]
}

fn network_rows(plan: &Plan) -> Vec<Vec<Span>> {
    let mut rows = vec![vec![plain("topology"), plain(""), plain(plan.network.topology)]];
    for phase in ["setup", "agent", "score"] {
        if let Some(zone) = plan.network.phases.get(phase) {
            rows.push(vec![plain(phase), span(Look::Strong, zone.level.to_string()), plain(egress(zone))]);
        }
    }
    rows
}

fn egress(zone: &ZonePlan) -> String {
    fn joined<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
        items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
    }
    let besides = |rules: &NetworkRules| {
        let denied =
            joined(rules.deny.iter().map(ToString::to_string).chain(rules.deny_cidr.iter().map(ToString::to_string)));
        let denied = if denied.is_empty() { denied } else { format!("; never {denied}") };
        let private = joined(&rules.allow_private_answers);
        let private = if private.is_empty() { private } else { format!("; private answers for {private}") };
        format!("{denied}{private}")
    };
    match &zone.egress {
        Egress::Nothing => "nothing may leave".into(),
        Egress::Everything { rules } => {
            let raw = joined(&rules.allow_cidr);
            let raw = if raw.is_empty() { raw } else { format!(", {raw} too") };
            format!("everything{raw}{}", besides(rules))
        }
        Egress::Listed { rules } => {
            let allowed =
                rules.allow.iter().map(ToString::to_string).chain(rules.allow_cidr.iter().map(ToString::to_string));
            format!("{}{}", joined(allowed), besides(rules))
        }
    }
}

fn granted_rows(plan: &Plan) -> Vec<Vec<Span>> {
    let row = |affordance: &profile::Affordance| {
        let kind = match affordance.kind {
            Kind::Tool => "tool",
            Kind::Mount => "mount",
            Kind::Environment => "environment",
        };
        let look = if affordance.runs == Runs::Sandbox { Look::Plain } else { Look::Doubtful };
        let sensitive = if affordance.sensitivity == Sensitivity::Sensitive { "sensitive" } else { "" };
        vec![
            plain(affordance.name.clone()),
            plain(kind),
            span(look, format!("runs: {}", affordance.runs)),
            plain(format!("reach: {}", affordance.reach)),
            span(Look::Doubtful, sensitive),
        ]
    };
    plan.affordances.iter().map(row).collect()
}

fn withheld_rows(plan: &Plan) -> Vec<Vec<Span>> {
    plan.withheld
        .iter()
        .map(|withheld| vec![span(Look::Faint, withheld.name.clone()), plain(withheld.reason.to_string())])
        .collect()
}

/// What a service sees of the host, and where it may use up something else than the agent.
fn more(service: &profile::plan::ServicePlan) -> String {
    let limits = service.limits.map(|limits| {
        let profile::ServiceLimits { memory, pids, cpu } = limits;
        format!("memory {memory}, pids {pids}, cpu {cpu}")
    });
    let mounts = (!service.mounts.is_empty()).then(|| format!("mounts {}", service.mounts.join(", ")));
    limits.into_iter().chain(mounts).collect::<Vec<_>>().join("; ")
}

fn service_rows(plan: &Plan) -> Vec<Vec<Span>> {
    let row = |(name, service): (&String, &profile::plan::ServicePlan)| {
        let ports: Vec<String> = service.ports.iter().map(ToString::to_string).collect();
        vec![
            plain(name.clone()),
            plain(service.image.reference.clone()),
            plain(format!("ports {}", if ports.is_empty() { "none".into() } else { ports.join(", ") })),
            span(Look::Strong, service.network.level.to_string()),
            plain(egress(&service.network)),
            plain(more(service)),
        ]
    };
    plan.services.iter().map(row).collect()
}

fn settings_rows(plan: &Plan) -> Vec<Vec<Span>> {
    let limits: Vec<String> = plan
        .limits
        .entries()
        .iter()
        .map(|(name, value, _)| format!("{} {value}", name.trim_start_matches("limits.")))
        .collect();
    let approval =
        plan.approval.as_ref().map_or("none".to_owned(), |approval| format!("{approval}: {}", approval.summary()));
    let files = &plan.file_tools;
    let access = if files.read_only { "read-only" } else { "read and write" };
    let list = |globs: &Vec<profile::Glob>| {
        let globs: Vec<String> = globs.iter().map(ToString::to_string).collect();
        if globs.is_empty() { "nothing".to_owned() } else { globs.join(" ") }
    };
    let allowed = files.allow.iter().map(|globs| format!(", only {}", list(globs)));
    let denied = (!files.deny.is_empty()).then(|| format!(", never {}", list(&files.deny)));
    let globs = allowed.chain(denied).collect::<Vec<_>>().concat();
    let mut rows = vec![
        vec![plain("approval"), plain(approval)],
        vec![plain("audit"), plain(plan.audit.to_string())],
        vec![plain("limits"), plain(limits.join(", "))],
        vec![
            plain("file tools"),
            plain(format!(
                "{}, {access}, root {}, at most {}, preflight {}{globs}",
                files.mode, files.root, files.max_bytes, files.preflight
            )),
        ],
    ];
    if let Some(search) = &plan.search {
        let keys: Vec<&str> = search.keys.iter().map(|key| key.variable.as_str()).collect();
        let keys = if keys.is_empty() { String::new() } else { format!(", keys from {}", keys.join(", ")) };
        rows.push(vec![plain("web search"), plain(format!("{} at {}{keys}", search.provider, search.endpoint))]);
    }
    if let Some(justification) = &plan.justification {
        rows.push(vec![plain("justification"), plain(justification.clone())]);
    }
    rows
}
