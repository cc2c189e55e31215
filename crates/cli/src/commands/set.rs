//! tmp
use crate::eval_args::SetArguments;
use crate::exit::Exit;
use crate::printer::Printer;
pub(super) fn run(_: &SetArguments, _: &mut Printer) -> Exit {
    Exit::Done
}
