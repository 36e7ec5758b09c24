//! A thread beside the writer that works when it is woken. It does not know what for.

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
    /// `work` is done once for each time the thread is woken; `begin` before the first.
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
            // Full: it is awake already.
            let _ = wake.try_send(());
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            // A panic has ended the process before it got here.
            drop(thread.join());
        }
    }
}
