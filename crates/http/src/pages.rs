//! The pages of the error codes, and Swagger UI with no asset from the internet.

use std::sync::{Arc, LazyLock};

use axum::{
    extract::Path,
    response::{IntoResponse, Redirect, Response},
};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use utoipa_swagger_ui::Config;

use crate::problem::{Code, Problem};

const MARKDOWN: HeaderValue = HeaderValue::from_static("text/markdown; charset=utf-8");
const INDEX: &str = include_str!("../../../docs/errors/README.md");

static SWAGGER: LazyLock<Arc<Config<'static>>> = LazyLock::new(|| Arc::new(Config::from("/openapi.json")));

pub(crate) async fn error_index() -> Response {
    ([(CONTENT_TYPE, MARKDOWN)], INDEX).into_response()
}

pub(crate) async fn error_page(Path(name): Path<String>) -> Result<Response, Problem> {
    let name = name.strip_suffix(".md").unwrap_or(&name);
    if name == "README" {
        return Ok(error_index().await);
    }
    let code = Code::ALL.iter().find(|code| code.as_str() == name).ok_or(Code::NotFound)?;
    Ok(([(CONTENT_TYPE, MARKDOWN)], code.page()).into_response())
}

pub(crate) async fn docs() -> Redirect {
    Redirect::permanent("/docs/")
}

pub(crate) async fn docs_index() -> Result<Response, Problem> {
    swagger("")
}

pub(crate) async fn docs_file(Path(file): Path<String>) -> Result<Response, Problem> {
    swagger(&file)
}

fn swagger(file: &str) -> Result<Response, Problem> {
    match utoipa_swagger_ui::serve(file, Arc::clone(&SWAGGER)) {
        Ok(Some(file)) => {
            let content_type = HeaderValue::try_from(file.content_type).map_err(|_| Code::Internal)?;
            Ok(([(CONTENT_TYPE, content_type)], file.bytes.into_owned()).into_response())
        }
        Ok(None) => Err(Code::NotFound.into()),
        Err(error) => {
            tracing::error!(%error, "Swagger UI can't be served");
            Err(Code::Internal.into())
        }
    }
}
