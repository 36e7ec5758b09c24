//! A thread beside the writer that does its work each time it is woken.

use std::{
    io,
    sync::mpsc::{SyncSender, sync_channel},
    thread::JoinHandle,
};

use crate::batcher::or_abort;

/// Ends and joins its thread when it is dropped.
#[derive(Debug)]
pub(super) struct Aside {
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Aside {
    /// Runs `begin` once, then `work` each time the thread is woken.
    pub(super) fn start(
        name: &'static str,
        begin: impl FnOnce() + Send + 'static,
        mut work: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let (wake, woken) = sync_channel::<()>(1);
        let run = move || {
            begin();
            while woken.recv().is_ok() {
                work();
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || or_abort(name, run))?;
        Ok(Self { wake: Some(wake), thread: Some(thread) })
    }

    pub(super) fn wake(&self) {
        if let Some(wake) = &self.wake {
            // If the channel is full, the thread is awake already.
            let _ = wake.try_send(());
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            // A panic has already ended the process.
            drop(thread.join());
        }
    }
}
