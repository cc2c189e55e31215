//! `--explain-config`: every setting with where it came from.

use profile::Request;
use serde_json::json;

use crate::printer::{Look, Printer, plain, span};
use crate::table::{page_width, table};

pub(crate) fn config(request: &Request, printer: &mut Printer) {
    if printer.json() {
        printer.data(&json!({"schema": "ringfence.settings/1", "settings": request.provenance}));
        return;
    }
    let rows: Vec<_> = request
        .provenance
        .iter()
        .map(|setting| {
            let overrides =
                setting.overrides.as_ref().map(|(value, source)| format!("{value} ({source})")).unwrap_or_default();
            vec![
                span(Look::Strong, setting.setting),
                plain(setting.value.clone()),
                plain(setting.source.to_string()),
                span(Look::Faint, overrides),
            ]
        })
        .collect();
    printer.page(&table(&["setting", "value", "from", "instead of"], &rows, page_width()));
}
