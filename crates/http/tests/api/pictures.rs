//! Pictures of items: which are accepted, and how they are served.

use penstock_domain::Timestamp;
use serde_json::json;

use crate::support::{ADMIN_TOKEN, Answer, START, Shop};

const UPLOAD: &str = "/api/v1/admin/pictures";

/// The beginning of a PNG, which is the only part that is checked, and some more bytes.
fn png(width: u32, height: u32, more_bytes: usize) -> Vec<u8> {
    let mut picture = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    picture.extend_from_slice(&width.to_be_bytes());
    picture.extend_from_slice(&height.to_be_bytes());
    picture.extend_from_slice(&[8, 2, 0, 0, 0, 0, 0, 0, 0]);
    picture.extend(std::iter::repeat_n(7, more_bytes));
    picture
}

fn gif(width: u16, height: u16) -> Vec<u8> {
    [b"GIF89a", &width.to_le_bytes()[..], &height.to_le_bytes()[..], b"\0\0\0;"].concat()
}

fn jpeg(width: u16, height: u16) -> Vec<u8> {
    let frame = [&b"\xff\xd8\xff\xc0\0\x0b\x08"[..], &height.to_be_bytes(), &width.to_be_bytes()].concat();
    [&frame[..], b"\x01\x01\x11\0\xff\xd9"].concat()
}

fn webp(width: u32, height: u32) -> Vec<u8> {
    let side = |dots: u32| (dots - 1).to_le_bytes()[..3].to_vec();
    [&b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0"[..], &side(width), &side(height)].concat()
}

fn avif(width: u32, height: u32) -> Vec<u8> {
    let boxed = |name: &[u8], content: &[u8]| {
        let length = u32::try_from(content.len() + 8).unwrap();
        [&length.to_be_bytes()[..], name, content].concat()
    };
    let size = boxed(b"ispe", &[&[0; 4][..], &width.to_be_bytes(), &height.to_be_bytes()].concat());
    let properties = boxed(b"iprp", &boxed(b"ipco", &size));
    [boxed(b"ftyp", b"avif\0\0\0\0avifmif1"), boxed(b"meta", &[&[0; 4][..], &properties].concat())].concat()
}

fn upload(shop: &Shop, stated: &str, picture: &[u8]) -> Answer {
    shop.admin().request("POST", UPLOAD, &[("content-type", stated)], picture)
}

#[test]
fn an_uploaded_picture_is_cached_for_ever_and_inert() {
    let shop = Shop::open();
    let picture = png(320, 240, 1000);
    let answer = upload(&shop, "image/png", &picture);
    assert_eq!(answer.status, 201, "{answer:?}");
    let view = answer.json();
    let address = view["picture"].as_str().unwrap();
    assert!(address.starts_with("/pictures/") && address.ends_with(".png"), "{address}");
    assert_eq!(view, json!({ "picture": address, "width": 320, "height": 240, "bytes": picture.len() }));
    assert_eq!(upload(&shop, "image/png", &picture).json(), view, "the same picture has the same address");

    let shown = shop.client().get(address);
    assert_eq!((shown.status, &shown.body), (200, &picture));
    for (name, value) in [
        ("content-type", "image/png"),
        ("cache-control", "public, max-age=31536000, immutable"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'"),
    ] {
        assert_eq!(shown.header(name), Some(value), "{name}");
    }
    let tag = shown.header("etag").unwrap();
    let again = shop.client().request("GET", address, &[("if-none-match", tag)], b"");
    assert_eq!((again.status, again.body.len()), (304, 0));
    let item = json!({ "title": "Kettle", "picture": address, "regular_price": { "amount": "1", "currency": "EUR" } });
    assert_eq!(shop.admin().post("/api/v1/admin/items", &item).json()["picture"], address);
}

#[test]
fn every_kind_of_picture_is_recognised_by_its_bytes_not_by_its_stated_type() {
    let shop = Shop::open();
    for (picture, extension, served_as) in [
        (png(12, 34, 0), "png", "image/png"),
        (jpeg(12, 34), "jpg", "image/jpeg"),
        (gif(12, 34), "gif", "image/gif"),
        (webp(12, 34), "webp", "image/webp"),
        (avif(12, 34), "avif", "image/avif"),
    ] {
        // The stated type is wrong, and not believed.
        let answer = upload(&shop, "image/gif; charset=x", &picture);
        assert_eq!(answer.status, 201, "{extension}: {answer:?}");
        let view = answer.json();
        assert_eq!((&view["width"], &view["height"]), (&json!(12), &json!(34)), "{extension}");
        let address = view["picture"].as_str().unwrap();
        assert!(address.ends_with(&format!(".{extension}")), "{address}");
        assert_eq!(shop.client().get(address).header("content-type"), Some(served_as));
        let other = address.replace(&format!(".{extension}"), ".png");
        assert_eq!(shop.client().get(&other).status, if extension == "png" { 200 } else { 404 });
    }
}

#[test]
fn anything_but_a_picture_of_acceptable_size_is_refused_in_words() {
    let shop = Shop::open();
    for stated in ["application/json", "image/svg+xml", "text/html", "", "image/"] {
        let refused = upload(&shop, stated, &png(1, 1, 0)).problem(415, "unsupported_media_type");
        assert!(refused["detail"].as_str().unwrap().contains("image/webp"), "{refused}");
    }
    let svg = b"<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>";
    for content in [&b""[..], &b"GIF"[..], &svg[..], &b"\x89PNG\r\n\x1a\n"[..]] {
        upload(&shop, "image/png", content).names_field("picture");
    }
    for (width, height) in [(4097, 1), (1, 4097), (0, 1), (1, 0), (u32::MAX, u32::MAX)] {
        upload(&shop, "image/png", &png(width, height, 0)).names_field("picture");
    }
    assert_eq!(upload(&shop, "image/png", &png(4096, 4096, 0)).status, 201);
}

#[test]
fn a_picture_may_be_larger_than_any_other_body_but_not_unlimited() {
    let shop = Shop::open();
    let head_bytes = png(1, 1, 0).len();
    let largest = png(1, 1, 1024 * 1024 - head_bytes);
    let address = upload(&shop, "image/png", &largest).json()["picture"].as_str().unwrap().to_owned();
    assert!(shop.client().get(&address).body == largest);
    let refused = upload(&shop, "image/png", &png(1, 1, 1024 * 1024)).problem(413, "body_too_large");
    assert!(refused["detail"].as_str().unwrap().contains("1048576"), "{refused}");
    // A body that is far too large is refused because of its stated length.
    let huge = format!(
        "POST {UPLOAD} HTTP/1.1\r\nhost: x\r\ncontent-type: image/png\r\ncontent-length: 99999999\r\nauthorization: Bearer {ADMIN_TOKEN}\r\n\r\n",
    );
    let mut client = shop.client();
    client.send_raw(huge.as_bytes());
    client.receive(false).unwrap().problem(413, "body_too_large");
}

/// More pictures than fit into memory are sent completely. Each that is read slowly is read from the records
/// piece by piece, instead of completely again and again.
#[test]
fn a_slow_reader_gets_the_whole_picture_although_others_take_its_place_in_memory() {
    let shop = Shop::open();
    let name = |number: usize| format!("{number:032x}.png");
    let content = |number: usize| -> Vec<u8> {
        (0..1 << 20).map(|place: usize| (place * 31 + place / 256 + number) as u8).collect()
    };
    for number in 0..80 {
        let (name, content) = (name(number), content(number));
        shop.block_on(shop.records.put_picture(&name, &content, Timestamp::from_millis(START))).unwrap();
    }
    let mut slow = shop.client();
    slow.send("GET", &format!("/pictures/{}", name(0)), &[], b"");
    // The system buffers a part of it. The rest waits while the other pictures pass through the memory.
    std::thread::sleep(std::time::Duration::from_millis(200));
    for number in 1..80 {
        assert_eq!(shop.client().get(&format!("/pictures/{}", name(number))).body, content(number));
    }
    assert!(slow.receive(false).unwrap().body == content(0));
}

#[test]
fn a_picture_uploaded_to_another_node_is_shown() {
    let shop = Shop::open();
    let name = "00112233445566778899aabbccddeeff.gif";
    let path = format!("/pictures/{name}");
    shop.client().get(&path).problem(404, "not_found");
    shop.block_on(shop.records.put_picture(name, b"GIF89a", Timestamp::from_millis(START))).unwrap();
    assert_eq!(shop.client().get(&path).body, b"GIF89a");
    // From now on it is in memory, so it is shown even while the database is away.
    shop.block_on(shop.records.close());
    assert_eq!(shop.client().get(&path).status, 200);
    shop.client().get("/pictures/ffeeddccbbaa99887766554433221100.gif").problem(503, "unavailable");
    shop.client().get("/pictures/nonsense").problem(404, "not_found");
}
