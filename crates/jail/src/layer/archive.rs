//! Changes as a layer's archive (image-spec layer.md): a tar file with names that mean removal.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};

use super::{Attributes, Sink, invalid};

const WHITEOUT: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";

/// Writes a layer's archive.
pub(crate) struct Archive<W: Write> {
    builder: Builder<Limited<W>>,
}

/// A writer that ends at a limit: a file without blocks may be said to be of any size.
struct Limited<W> {
    inner: W,
    left: u64,
}

impl<W: Write> Write for Limited<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.left = self.left.checked_sub(length).ok_or_else(|| invalid("the layer is larger than its limit"))?;
        self.inner.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(writer: W, limit: u64) -> Self {
        Self { builder: Builder::new(Limited { inner: writer, left: limit }) }
    }

    /// Writes the end.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.builder.into_inner()?.flush()
    }

    fn header(&mut self, kind: EntryType, attributes: &Attributes) -> io::Result<Header> {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(attributes.mode);
        header.set_uid(attributes.uid.into());
        header.set_gid(attributes.gid.into());
        header.set_mtime(u64::try_from(attributes.mtime.0).unwrap_or(0));
        header.set_size(if kind == EntryType::Regular { attributes.size } else { 0 });
        let (seconds, nanos) = attributes.mtime;
        let time = format!("{seconds}.{nanos:09}");
        let names: Vec<(String, &[u8])> = attributes
            .extended
            .iter()
            .map(|(name, value)| (format!("SCHILY.xattr.{name}"), value.as_slice()))
            .collect();
        let fine = (nanos != 0 || seconds < 0).then_some(("mtime", time.as_bytes()));
        let fields: Vec<(&str, &[u8])> =
            fine.into_iter().chain(names.iter().map(|(name, value)| (name.as_str(), *value))).collect();
        if !fields.is_empty() {
            self.builder.append_pax_extensions(fields)?;
        }
        Ok(header)
    }

    fn empty(&mut self, name: &Path, mut header: Header) -> io::Result<()> {
        self.builder.append_data(&mut header, name, io::empty())
    }

    /// A mark beside the entries: an empty file of this name.
    fn mark(&mut self, name: &Path) -> io::Result<()> {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(0);
        self.empty(name, header)
    }
}

/// In an archive, a name with this beginning would remove another file.
fn sayable(name: &Path) -> io::Result<&Path> {
    if name.file_name().is_some_and(|file| file.as_bytes().starts_with(WHITEOUT.as_bytes())) {
        return Err(invalid("a file's name begins with `.wh.`, which a layer cannot hold"));
    }
    Ok(name)
}

impl<W: Write> Sink for Archive<W> {
    fn directory(&mut self, name: &Path, attributes: &Attributes, opaque: bool) -> io::Result<()> {
        let header = self.header(EntryType::Directory, attributes)?;
        self.empty(sayable(name)?, header)?;
        if opaque { self.mark(&name.join(OPAQUE)) } else { Ok(()) }
    }

    fn whiteout(&mut self, name: &Path) -> io::Result<()> {
        let mut mark = OsString::from(WHITEOUT);
        mark.push(sayable(name)?.file_name().unwrap_or_default());
        let parent: PathBuf = name.parent().unwrap_or(Path::new("")).into();
        self.mark(&parent.join(mark))
    }

    fn file(&mut self, name: &Path, attributes: &Attributes, content: File) -> io::Result<()> {
        let mut header = self.header(EntryType::Regular, attributes)?;
        // Exactly as long as it is said to be, whoever writes to it meanwhile.
        let exact = content.take(attributes.size).chain(io::repeat(0)).take(attributes.size);
        self.builder.append_data(&mut header, sayable(name)?, exact)
    }

    fn hard_link(&mut self, name: &Path, first: &Path) -> io::Result<()> {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Link);
        header.set_mode(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(0);
        self.builder.append_link(&mut header, sayable(name)?, first)
    }

    fn symlink(&mut self, name: &Path, attributes: &Attributes, target: &OsStr) -> io::Result<()> {
        let mut header = self.header(EntryType::Symlink, attributes)?;
        // By its bytes: a link may lead to any text.
        if header.set_link_name_literal(target.as_bytes()).is_ok() {
            return self.empty(sayable(name)?, header);
        }
        self.builder.append_pax_extensions([("linkpath", target.as_bytes())])?;
        self.empty(sayable(name)?, header)
    }

    fn fifo(&mut self, name: &Path, attributes: &Attributes) -> io::Result<()> {
        let header = self.header(EntryType::Fifo, attributes)?;
        self.empty(sayable(name)?, header)
    }
}
