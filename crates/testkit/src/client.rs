//! A small blocking HTTP/1.1 client on a bare socket, with keep-alive and timeouts. It returns `AnswerLost` when a
//! request was sent and no whole answer came: the test has to assume that either may have happened.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Why there is no answer.
#[derive(Debug)]
pub enum AnswerLost {
    /// The request was not sent: the server can't have seen it.
    NotSent(io::Error),
    /// The request was sent in part or whole, and no whole answer came: the outcome is unknown.
    Unanswered(io::Error),
}

#[derive(Clone, Debug)]
pub struct ClientAnswer {
    pub status: u16,
    /// Names are in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl ClientAnswer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {} {}", self.status, self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The `code` of a problem; empty when the body has none.
    pub fn code(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        body["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// One connection, opened on first use and reopened after it breaks.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    token: Option<String>,
    timeout: Duration,
    connection: Option<BufReader<TcpStream>>,
}

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        Self { address, token: None, timeout: TIMEOUT, connection: None }
    }

    #[must_use]
    pub fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub fn set_token(&mut self, token: &str) {
        self.token = Some(token.to_owned());
    }

    pub fn get(&mut self, path: &str) -> Result<ClientAnswer, AnswerLost> {
        self.send("GET", path, &[], None)
    }

    pub fn post(&mut self, path: &str, body: &Value) -> Result<ClientAnswer, AnswerLost> {
        self.send("POST", path, &[], Some(body.to_string().as_bytes()))
    }

    pub fn post_nothing(&mut self, path: &str) -> Result<ClientAnswer, AnswerLost> {
        self.send("POST", path, &[], None)
    }

    /// Claims `quantity` units under an idempotency key.
    pub fn claim(&mut self, sale: &str, quantity: u32, key: &str) -> Result<ClientAnswer, AnswerLost> {
        let body = format!("{{\"quantity\":{quantity}}}");
        let path = format!("/api/v1/sales/{sale}/orders");
        self.send("POST", &path, &[("idempotency-key", key)], Some(body.as_bytes()))
    }

    pub fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<ClientAnswer, AnswerLost> {
        let request = self.request_bytes(method, path, headers, body);
        self.send_bytes(&request)
    }

    /// Opens the connection if there is none, without sending anything.
    pub fn connect(&mut self) -> io::Result<()> {
        if self.connection.is_none() {
            let stream = TcpStream::connect_timeout(&self.address, self.timeout)?;
            stream.set_read_timeout(Some(self.timeout))?;
            stream.set_write_timeout(Some(self.timeout))?;
            stream.set_nodelay(true)?;
            self.connection = Some(BufReader::new(stream));
        }
        Ok(())
    }

    /// Sends raw bytes as one request and reads one answer.
    pub fn send_bytes(&mut self, request: &[u8]) -> Result<ClientAnswer, AnswerLost> {
        self.connect().map_err(AnswerLost::NotSent)?;
        let Some(mut connection) = self.connection.take() else {
            return Err(AnswerLost::NotSent(io::ErrorKind::NotConnected.into()));
        };
        connection.get_mut().write_all(request).map_err(AnswerLost::Unanswered)?;
        let answer = read_answer(&mut connection).map_err(AnswerLost::Unanswered)?;
        if answer.header("connection") != Some("close") {
            self.connection = Some(connection);
        }
        Ok(answer)
    }

    fn request_bytes(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Vec<u8> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        if let Some(token) = &self.token {
            head.push_str(&format!("authorization: Bearer {token}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = body {
            head.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        bytes
    }
}

fn read_answer(connection: &mut BufReader<TcpStream>) -> io::Result<ClientAnswer> {
    let status_line = read_line(connection)?;
    let status = status_line
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| broken(format!("not a status line: {status_line:?}")))?;
    let mut headers = Vec::new();
    loop {
        let line = read_line(connection)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| broken(format!("not a header: {line:?}")))?;
        headers.push((name.trim().to_lowercase(), value.trim().to_owned()));
    }
    let mut answer = ClientAnswer { status, headers, body: Vec::new() };
    answer.body = read_body(connection, &answer)?;
    Ok(answer)
}

fn read_body(connection: &mut BufReader<TcpStream>, answer: &ClientAnswer) -> io::Result<Vec<u8>> {
    if answer.header("transfer-encoding") == Some("chunked") {
        return read_chunks(connection);
    }
    if matches!(answer.status, 204 | 304) {
        return Ok(Vec::new());
    }
    let length = answer.header("content-length").and_then(|length| length.parse().ok());
    let mut body = vec![0; length.ok_or_else(|| broken("no content-length".to_owned()))?];
    connection.read_exact(&mut body)?;
    Ok(body)
}

fn read_chunks(connection: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(connection)?;
        let size =
            usize::from_str_radix(&line, 16).map_err(|_| broken(format!("not a chunk size: {line:?}")))?;
        let start = body.len();
        body.resize(start + size, 0);
        connection.read_exact(&mut body[start..])?;
        read_line(connection)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

fn read_line(connection: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    if connection.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if !line.ends_with('\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn broken(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}
