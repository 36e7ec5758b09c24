//! Pictures of items: uploaded by a merchant, stored in the records, served from memory. A picture's name is
//! derived from its content, so a client that has it never needs to ask again.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Path, Request, State},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{Stream, stream};
use hyper::{
    HeaderMap, StatusCode,
    header::{
        CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderValue,
        IF_NONE_MATCH, X_CONTENT_TYPE_OPTIONS,
    },
};
use imagesize::{Compression, ImageType};
use penstock_shop::{Code, Shop, storefront::PictureRefusal};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use utoipa::ToSchema;

use crate::{
    api::caller::Admin,
    contract::{
        json::{self, BodyLimit},
        problem::Problem,
        refusals::refusals,
        wire::hexadecimal,
    },
};

/// Some more is read, so that a browser gets to see why a larger upload is refused.
const LIMIT: BodyLimit = BodyLimit { max_bytes: 1024 * 1024, discarded_bytes: 16 * 1024 * 1024 };
const UPLOADS: &str = "/api/v1/admin/pictures";
/// A browser unpacks a picture to four bytes per pixel.
const MAX_SIDE: usize = 4096;
const DIGEST_BYTES: usize = 16;

const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
/// Nothing in a picture may load or run anything.
const INERT: HeaderValue = HeaderValue::from_static("default-src 'none'");

/// The kinds of pictures. No SVG, because it can contain scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Avif,
    Gif,
    Jpeg,
    Png,
    Webp,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Avif, Self::Gif, Self::Jpeg, Self::Png, Self::Webp];

    const fn extension(self) -> &'static str {
        match self {
            Self::Avif => "avif",
            Self::Gif => "gif",
            Self::Jpeg => "jpg",
            Self::Png => "png",
            Self::Webp => "webp",
        }
    }

    const fn media_type(self) -> &'static str {
        match self {
            Self::Avif => "image/avif",
            Self::Gif => "image/gif",
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::Webp => "image/webp",
        }
    }

    /// The kind of the content, whatever its sender says.
    fn of(content: &[u8]) -> Option<Self> {
        match imagesize::image_type(content).ok()? {
            ImageType::Gif => Some(Self::Gif),
            ImageType::Jpeg => Some(Self::Jpeg),
            ImageType::Png => Some(Self::Png),
            ImageType::Webp => Some(Self::Webp),
            ImageType::Heif(Compression::Av1) => Some(Self::Avif),
            _ => None,
        }
    }

    /// The kind that a name indicates, if it is the name of a picture.
    fn of_name(name: &str) -> Option<Self> {
        let (digest, extension) = name.split_once('.')?;
        let is_digest = digest.len() == 2 * DIGEST_BYTES
            && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        Self::ALL.into_iter().find(|kind| is_digest && kind.extension() == extension)
    }
}

/// The longest body that this path accepts, if it is for pictures.
pub(crate) fn max_bytes_of_body(path: &str) -> Option<usize> {
    (path == UPLOADS).then_some(LIMIT.max_bytes)
}

/// The bytes of a picture.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "documents a body")]
pub(crate) struct PictureBytes(Vec<u8>);

/// A stored picture.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Picture)]
pub(crate) struct PictureView {
    /// Its address, to use as an item's `picture`.
    #[schema(example = "/pictures/9f86d081884c7d659a2feaa0c55ad015.png")]
    picture: String,
    width: u32,
    height: u32,
    bytes: u32,
}

/// Upload a picture
///
/// The body is the picture itself: PNG, JPEG, WebP, AVIF or GIF, at most 1 MiB and 4096 by 4096 pixels. Its
/// kind is detected from its bytes. Uploading the same picture twice gives the same address.
#[utoipa::path(post, path = "/api/v1/admin/pictures", tag = "admin",
    request_body(content((PictureBytes = "image/png"), (PictureBytes = "image/jpeg"), (PictureBytes = "image/webp"),
        (PictureBytes = "image/avif"), (PictureBytes = "image/gif"))),
    security(("bearer" = []), ("session" = [])), responses((status = 201, body = PictureView)),
    extensions(("x-refusals" = json!(refusals!(Admin; BodyTooLarge, UnsupportedMediaType, InvalidRequest, RequestTimeout, BadRequest)))))]
pub(crate) async fn create_picture(
    State(shop): State<Arc<Shop>>,
    _admin: Admin,
    request: Request,
) -> Result<(StatusCode, axum::Json<PictureView>), Problem> {
    let (parts, body) = request.into_parts();
    expect_picture(&parts.headers)?;
    let content = json::read_body_within(body, LIMIT).await?;
    let (kind, width, height) = inspect(&content)?;
    let digest = Sha256::digest(&content);
    let digest = hexadecimal(digest.get(..DIGEST_BYTES).unwrap_or(&digest));
    let name = format!("{digest}.{}", kind.extension());
    shop.records.put_picture(&name, &content, shop.now()).await?;
    let view = PictureView {
        picture: format!("/pictures/{name}"),
        width,
        height,
        bytes: u32::try_from(content.len()).map_err(|_| Code::Internal)?,
    };
    Ok((StatusCode::CREATED, axum::Json(view)))
}

fn expect_picture(headers: &HeaderMap) -> Result<(), Problem> {
    let stated = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let stated = stated.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if Kind::ALL.iter().any(|kind| stated.eq_ignore_ascii_case(kind.media_type().as_bytes())) {
        return Ok(());
    }
    Err(Problem::with_detail(
        Code::UnsupportedMediaType,
        "Send the picture itself, as image/png, image/jpeg, image/webp, image/avif or image/gif.",
    ))
}

/// Kind, width and height, if browsers can show the picture.
fn inspect(content: &[u8]) -> Result<(Kind, u32, u32), Problem> {
    let refuse = |message: &'static str| Problem::invalid_field("picture", message);
    let kind = Kind::of(content).ok_or_else(|| refuse("is not a PNG, JPEG, WebP, AVIF or GIF"))?;
    let size = imagesize::blob_size(content).map_err(|_| refuse("is damaged: its size can't be read"))?;
    let side = |dots: usize| u32::try_from(dots).ok().filter(|_| (1..=MAX_SIDE).contains(&dots));
    match (side(size.width), side(size.height)) {
        (Some(width), Some(height)) => Ok((kind, width, height)),
        _ => {
            let (width, height) = (size.width, size.height);
            let message = format!("has {width} by {height} pixels; it may have 1 to {MAX_SIDE} each way");
            Err(Problem::invalid_field("picture", message))
        }
    }
}

/// Get a picture
///
/// It never changes: caches may keep it for ever.
#[utoipa::path(get, path = "/pictures/{name}", tag = "items",
    params(("name" = String, Path), ("If-None-Match" = Option<String>, Header, description = "The `ETag` of your copy")),
    responses((status = 200, headers(("ETag" = String)),
            content((PictureBytes = "image/png"), (PictureBytes = "image/jpeg"), (PictureBytes = "image/webp"),
                (PictureBytes = "image/avif"), (PictureBytes = "image/gif"))),
        (status = 304, description = "Your copy is up to date", headers(("ETag" = String)))),
    extensions(("x-refusals" = json!(refusals!(; NotFound, Unavailable)))))]
pub(crate) async fn get_picture(
    State(shop): State<Arc<Shop>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let kind = Kind::of_name(&name).ok_or(Code::NotFound)?;
    let tag = HeaderValue::try_from(format!("\"{name}\"")).map_err(|_| Code::Internal)?;
    let content = shop.pictures.load(&name).await.map_err(|error| match &error {
        PictureRefusal::Missing => Code::NotFound.into(),
        PictureRefusal::Records(error) => Problem::from(&**error),
    })?;
    let common = [
        (ETAG, tag.clone()),
        (CACHE_CONTROL, FOREVER),
        (X_CONTENT_TYPE_OPTIONS, NOSNIFF),
        (CONTENT_SECURITY_POLICY, INERT),
    ];
    if headers.get_all(IF_NONE_MATCH).iter().any(|known| known == tag) {
        return Ok((StatusCode::NOT_MODIFIED, common).into_response());
    }
    let media_type = HeaderValue::from_static(kind.media_type());
    let length = HeaderValue::from(content.len());
    drop(content);
    let body = Body::from_stream(pieces(shop, name));
    Ok(([(CONTENT_TYPE, media_type), (CONTENT_LENGTH, length)], common, body).into_response())
}

/// The bytes of a picture. Each piece is looked up when the client is ready for it, so that a client that
/// reads slowly or not at all does not keep a picture in memory that nobody else wants.
fn pieces(
    shop: Arc<Shop>,
    name: String,
) -> impl Stream<Item = Result<Bytes, PictureRefusal>> + Send + 'static {
    stream::try_unfold((shop, name, 0), |(shop, name, begin)| async move {
        let piece = shop.pictures.piece(&name, begin).await?;
        let end = begin + piece.len();
        Ok((end > begin).then_some((piece, (shop, name, end))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_pictures_are_looked_up() {
        let digest = "9f86d081884c7d659a2feaa0c55ad015";
        assert_eq!(Kind::of_name(&format!("{digest}.jpg")), Some(Kind::Jpeg));
        for name in [
            digest.to_owned(),
            format!("{digest}.svg"),
            format!("{digest}.JPG"),
            format!("{}.jpg", digest.to_uppercase()),
            format!("{digest}0.jpg"),
            format!("{digest}.jpg.png"),
            ".jpg".to_owned(),
            "../../etc/passwd".to_owned(),
        ] {
            assert_eq!(Kind::of_name(&name), None, "{name}");
        }
    }

    #[test]
    fn a_damaged_picture_is_refused_without_a_panic() {
        let starts: [&[u8]; 6] = [
            b"\x89PNG\r\n\x1a\n",
            b"\xff\xd8\xff",
            b"GIF89a",
            b"RIFF\0\0\0\0WEBPVP8 ",
            b"RIFF\0\0\0\0WEBPVP8X",
            b"\0\0\0\x18ftypavif\0\0\0\0avifmif1",
        ];
        for start in starts {
            for filling in [0, 1, 0x20, 0x7f, 0xd8, 0xff] {
                for length in [0, 1, 4, 8, 16, 64, 4096] {
                    // Any result will do, as long as there is no panic.
                    let _ = inspect(&[start, &vec![filling; length]].concat());
                }
            }
        }
        assert!(inspect(b"").is_err());
        assert!(inspect(b"<svg xmlns='http://www.w3.org/2000/svg'></svg>").is_err());
    }
}
