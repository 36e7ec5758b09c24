//! What can be between a client and a server: nginx, and a proxy that can be cut.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use penstock_local::{Cut, CutProxy, Nginx, free_address};

/// A server that echoes every line until it is told to go.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            thread::spawn(move || {
                let mut answers = connection.unwrap();
                for line in BufReader::new(answers.try_clone().unwrap()).lines().map_while(Result::ok) {
                    answers.write_all(format!("{line}\n").as_bytes()).unwrap();
                }
            });
        }
    });
    address
}

fn ask(connection: &mut TcpStream, line: &str) -> std::io::Result<String> {
    connection.write_all(format!("{line}\n").as_bytes())?;
    hear(connection, line.len())
}

fn hear(connection: &mut TcpStream, letters: usize) -> std::io::Result<String> {
    let mut answer = vec![0; letters + 1];
    connection.read_exact(&mut answer)?;
    Ok(String::from_utf8(answer).unwrap().trim().to_owned())
}

#[test]
fn a_reset_proxy_ends_connections_and_refuses_new_ones_until_it_is_mended() {
    let mut proxy = CutProxy::start(echo()).unwrap();
    let mut connection = TcpStream::connect(proxy.address()).unwrap();
    assert_eq!(ask(&mut connection, "one").unwrap(), "one");
    proxy.cut(Cut::Reset).unwrap();
    let error = connection.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let refused = TcpStream::connect(proxy.address()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    proxy.mend().unwrap();
    let mut connection = TcpStream::connect(proxy.address()).unwrap();
    assert_eq!(ask(&mut connection, "two").unwrap(), "two");
}

#[test]
fn a_silent_proxy_holds_back_everything_until_it_is_mended() {
    let mut proxy = CutProxy::start(echo()).unwrap();
    let mut old = TcpStream::connect(proxy.address()).unwrap();
    assert_eq!(ask(&mut old, "one").unwrap(), "one");
    proxy.cut(Cut::Silence).unwrap();
    let mut new = TcpStream::connect(proxy.address()).unwrap();
    for connection in [&mut old, &mut new] {
        connection.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert_eq!(ask(connection, "two").unwrap_err().kind(), ErrorKind::WouldBlock);
        connection.set_read_timeout(None).unwrap();
    }
    proxy.mend().unwrap();
    assert_eq!(hear(&mut old, 3).unwrap(), "two");
    assert_eq!(hear(&mut new, 3).unwrap(), "two");
    // A silent connection can still be reset.
    proxy.cut(Cut::Silence).unwrap();
    proxy.cut(Cut::Reset).unwrap();
    assert_eq!(old.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_slow_proxy_delays_each_direction() {
    let mut proxy = CutProxy::start(echo()).unwrap();
    let mut connection = TcpStream::connect(proxy.address()).unwrap();
    proxy.delay(40).unwrap();
    let started = Instant::now();
    assert_eq!(ask(&mut connection, "one").unwrap(), "one");
    assert!(started.elapsed() >= Duration::from_millis(80), "{:?}", started.elapsed());
}

#[test]
fn an_end_passes_through_as_an_end_and_a_dead_target_as_a_reset() {
    let proxy = CutProxy::start(echo()).unwrap();
    let mut connection = TcpStream::connect(proxy.address()).unwrap();
    connection.write_all(b"one\n").unwrap();
    connection.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "one\n");
    let nowhere = CutProxy::start(free_address().unwrap()).unwrap();
    let mut connection = TcpStream::connect(nowhere.address()).unwrap();
    assert_eq!(connection.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    let address = proxy.address();
    drop(proxy);
    assert!(TcpStream::connect(address).is_err(), "it outlives its value");
}

fn configuration(address: SocketAddr, body: &str) -> String {
    format!(
        "pid nginx.pid;
error_log logs/error.log;
events {{}}
http {{
    access_log logs/access.log;
    client_body_temp_path temp/body;
    proxy_temp_path temp/proxy;
    fastcgi_temp_path temp/fastcgi;
    uwsgi_temp_path temp/uwsgi;
    scgi_temp_path temp/scgi;
    server {{ listen {address}; location / {{ return 200 '{body}'; }} }}
}}
"
    )
}

fn get(address: SocketAddr) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn nginx_reloads_its_configuration_and_ends_when_its_value_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let address = free_address().unwrap();
    let mut nginx = Nginx::start(folder.path(), &configuration(address, "one")).unwrap();
    assert_eq!(get(address), "one");
    nginx.reload(&configuration(address, "two")).unwrap();
    assert_eq!(get(address), "two");
    let error = nginx.reload("pid nginx.pid; no_such_directive;").unwrap_err();
    assert!(error.to_string().contains("no_such_directive"), "{error}");
    assert_eq!(get(address), "two");
    assert!(folder.path().join("logs/access.log").exists());
    let workers = nginx.workers().unwrap();
    assert!(!workers.is_empty());
    drop(nginx);
    for worker in workers {
        assert!(!Path::new(&format!("/proc/{worker}")).exists(), "a worker outlives its master");
    }
    let error = Nginx::start(folder.path(), "pid nginx.pid; no_such_directive;").unwrap_err();
    assert!(error.to_string().contains("no_such_directive"), "{error}");
}
