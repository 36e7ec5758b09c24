//! Swagger UI, without any asset from the internet.

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

use axum::{
    extract::Path,
    response::{Html, IntoResponse, Response},
};
use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use penstock_shop::Code;
use utoipa_swagger_ui::{Config, SwaggerFile};

use super::policy::guard_docs;
use crate::contract::problem::Problem;

static SWAGGER: LazyLock<Arc<Config<'static>>> = LazyLock::new(|| Arc::new(Config::from("/openapi.json")));

/// Swagger UI's page. Its links are relative, so it names their base; then it works with and without the
/// trailing slash.
pub(crate) async fn docs() -> Result<Response, Problem> {
    let page = swagger_file("index.html")?;
    let page = String::from_utf8_lossy(&page.bytes).replace("<head>", "<head>\n    <base href=\"/docs/\" />");
    Ok(guarded(Html(page).into_response()))
}

pub(crate) async fn docs_file(Path(file): Path<String>) -> Result<Response, Problem> {
    let file = swagger_file(&file)?;
    let content_type = HeaderValue::try_from(file.content_type).map_err(|_| Code::Internal)?;
    let bytes = match file.bytes {
        Cow::Borrowed(bytes) => Bytes::from_static(bytes),
        Cow::Owned(bytes) => Bytes::from(bytes),
    };
    Ok(guarded(([(CONTENT_TYPE, content_type)], bytes).into_response()))
}

fn guarded(mut response: Response) -> Response {
    guard_docs(response.headers_mut());
    response
}

fn swagger_file(name: &str) -> Result<SwaggerFile<'static>, Problem> {
    match utoipa_swagger_ui::serve(name, Arc::clone(&SWAGGER)) {
        Ok(file) => file.ok_or(Code::NotFound.into()),
        Err(error) => {
            tracing::error!(%error, "Swagger UI can't be served");
            Err(Code::Internal.into())
        }
    }
}
