//! Numbers or places of which there is nearly always one: kept in place then, without memory of their own.

#[derive(Clone, Debug)]
pub(crate) enum Few<T> {
    One([T; 1]),
    Many(Vec<T>),
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Few::Many(Vec::new())
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        let mut rest = all.into_iter();
        match (rest.next(), rest.next()) {
            (None, _) => Few::default(),
            (Some(one), None) => Few::One([one]),
            (Some(one), Some(two)) => {
                let mut many = Vec::with_capacity(rest.size_hint().0 + 2);
                many.extend([one, two]);
                many.extend(rest);
                Few::Many(many)
            }
        }
    }
}

impl<T: Copy + PartialEq> Few<T> {
    pub(crate) fn all(&self) -> &[T] {
        match self {
            Few::One(one) => one,
            Few::Many(many) => many,
        }
    }

    pub(crate) fn push(&mut self, new: T) {
        *self = self.all().iter().copied().chain([new]).collect();
    }

    pub(crate) fn remove(&mut self, gone: T) {
        match self {
            Few::One([one]) if *one == gone => *self = Few::default(),
            Few::One(_) => {}
            Few::Many(many) => many.retain(|other| *other != gone),
        }
    }
}
