//! The trait every log offers, and the readers that come with it.

use std::sync::Arc;

use crate::{Frame, FrameBuf, FrameHeader, LogError, LogId, Tail};

/// An ordered, durable sequence of frames with one writer. Synchronous: the writer owns a thread.
pub trait Log: Send {
    /// The id chosen when the log was created.
    fn log_id(&self) -> LogId;

    /// The first offset that can be read (0 unless old segments were removed).
    fn start(&self) -> u64;

    /// The offset after the last durable record: the base offset of the next frame.
    fn end(&self) -> u64;

    /// Seals and writes a frame. When this returns `Ok` the frame is durable and readers see it.
    ///
    /// A wrong base offset, record count or payload size is refused and changes nothing. Any failure of the
    /// medium stops the log for good: the frame may or may not be found after a restart, and every later append
    /// answers [`LogError::Stopped`] with the first cause.
    fn append(&mut self, frame: &mut FrameBuf, header: &FrameHeader) -> Result<(), LogError>;

    /// Notes durably how far the log has come, so that the loss of its newest part is noticed at the next open. For
    /// a clean end; a log that rotates does so by itself now and then.
    fn mark_end(&mut self) -> Result<(), LogError>;

    /// A handle for reading, usable on any thread while the writer goes on.
    fn reader(&self) -> Reader;

    /// A handle for waiting until the end moves.
    fn tail(&self) -> Tail;

    /// Frames whose range ends after `offset`, in order: the first one holds `offset`.
    fn read_from(&self, offset: u64) -> Result<Frames, LogError> {
        self.reader().read_from(offset)
    }
}

/// A shared handle on a log's frames.
pub type Reader = Arc<dyn ReadLog>;

/// Reading beside a writer.
pub trait ReadLog: Send + Sync {
    /// Frames whose range ends after `offset`, in order: the first one holds `offset`. An offset at or past the
    /// end gives a reader that is empty until the log gets there.
    fn read_from(&self, offset: u64) -> Result<Frames, LogError>;
}

/// What a backend implements to give out frames.
pub trait FrameSource: Send {
    /// Fills `frame` with the next durable frame, reusing its memory; `false` at the present end.
    fn next_into(&mut self, frame: &mut Frame) -> Result<bool, LogError>;
}

/// A cursor over frames. At the end it gives `None`, and goes on when called again after an append.
pub struct Frames {
    source: Box<dyn FrameSource>,
}

impl Frames {
    /// Wraps a backend's cursor.
    pub fn new(source: impl FrameSource + 'static) -> Self {
        Self { source: Box::new(source) }
    }

    /// Fills `frame` with the next frame, reusing its memory; `false` at the present end.
    pub fn next_into(&mut self, frame: &mut Frame) -> Result<bool, LogError> {
        self.source.next_into(frame)
    }

    /// The next frame, or `None` at the present end.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, LogError> {
        let mut frame = Frame::default();
        Ok(self.source.next_into(&mut frame)?.then_some(frame))
    }
}

impl Iterator for Frames {
    type Item = Result<Frame, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_frame().transpose()
    }
}
