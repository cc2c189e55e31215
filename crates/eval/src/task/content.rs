//! What a message of an input holds: words, or a list of words and images.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use log::message::{Content, Detail, Part};
use profile::Problem;
use profile::source::{Complaints, Fields, Node, Value, text};

use super::files::{Files, included};

/// The largest image: providers take no larger ones.
const MAX_IMAGE_BYTES: u64 = 20 << 20;
const HINT: &str = "write content: [{text: What is this?}, {image: picture.png}]";

/// Reads `content`.
pub(super) fn read(node: Node, complaints: &Complaints, files: &dyn Files) -> Option<Content> {
    match node.value {
        Value::List(items) => {
            if items.is_empty() {
                complaints.add(Problem::at(node.place, "`content` has no parts").hint(HINT));
                return None;
            }
            let parts: Vec<Part> = items.into_iter().filter_map(|item| part(item, complaints, files)).collect();
            Some(Content::Parts(parts))
        }
        value => text(Node { place: node.place, value }, "content", complaints).map(|text| text.value.into()),
    }
}

/// One part; as Inspect writes it, it may also say its type.
fn part(node: Node, complaints: &Complaints, files: &dyn Files) -> Option<Part> {
    let mut fields = Fields::open(node, "a part of a message", &["type", "text", "image", "detail"], complaints)?;
    let place = fields.place();
    let kind = fields.text("type").map(|kind| kind.value);
    let detail = fields.text("detail");
    let (words, image) = (fields.text("text"), fields.text("image"));
    fields.close();
    let part = match (words, image, kind.as_deref()) {
        (Some(words), None, None | Some("text")) if detail.is_none() => Part::said(words.value),
        (None, Some(image), None | Some("image")) => {
            let place = image.place.unwrap_or(place);
            let image = if image.value.starts_with("data:") {
                image.value
            } else {
                let most = MAX_IMAGE_BYTES;
                let bytes = included(&image.value, place, complaints, |path| files.read(path, most))?;
                data_url(&bytes).or_else(|| {
                    let message = format!("`{}` is not an image that models are shown", image.value);
                    complaints.add(Problem::at(place, message).hint("images are png, jpeg, gif or webp"));
                    None
                })?
            };
            let detail = match detail.as_ref().map(|detail| detail.value.as_str()) {
                None | Some("auto") => Detail::Auto,
                Some("low") => Detail::Low,
                Some("high") => Detail::High,
                Some(other) => {
                    let message = format!("`{other}` is not a detail");
                    complaints.add(Problem::at(place, message).hint("details are auto, low, high"));
                    return None;
                }
            };
            Part::Image { image, detail }
        }
        _ => {
            complaints.add(Problem::at(place, "a part of a message is either a `text` or an `image`").hint(HINT));
            return None;
        }
    };
    Some(part)
}

/// An image as providers take it; what it is, is said by its first bytes and not by its name.
fn data_url(bytes: &[u8]) -> Option<String> {
    let kind = match bytes {
        [0x89, b'P', b'N', b'G', ..] => "png",
        [0xff, 0xd8, 0xff, ..] => "jpeg",
        [b'G', b'I', b'F', b'8', ..] => "gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "webp",
        _ => return None,
    };
    Some(format!("data:image/{kind};base64,{}", STANDARD.encode(bytes)))
}
