//! How the parts of a node are: fine, or why not.

use std::sync::Arc;

use holdfast_engine::Monitor;

/// One part of a node.
#[derive(Debug)]
pub struct Part {
    name: &'static str,
    trouble: Monitor<Option<String>>,
}

impl Part {
    /// A part that has not begun yet.
    #[must_use]
    pub fn new(name: &'static str) -> Arc<Part> {
        Arc::new(Part { name, trouble: Monitor::new(Some("it has not begun yet".to_owned())) })
    }

    /// What it is called.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Why it does not work; `None` if it does.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    /// It works, whatever was before.
    pub fn works(&self) {
        let before = self.trouble.lock().take();
        if before.is_some() {
            tracing::info!(part = self.name, "works");
        }
    }

    /// Says it once, however often it fails in the same way.
    pub fn fails(&self, why: impl std::fmt::Display) {
        let why = why.to_string();
        let mut trouble = self.trouble.lock();
        if trouble.as_ref() != Some(&why) {
            tracing::warn!(part = self.name, why, "does not work");
            *trouble = Some(why);
        }
    }
}

/// All parts.
#[derive(Debug, Default, Clone)]
pub struct Health {
    parts: Vec<Arc<Part>>,
}

impl Health {
    /// The parts.
    #[must_use]
    pub fn parts(&self) -> &[Arc<Part>] {
        &self.parts
    }

    pub(crate) fn part(&mut self, name: &'static str) -> Arc<Part> {
        let part = Part::new(name);
        self.parts.push(Arc::clone(&part));
        part
    }
}
