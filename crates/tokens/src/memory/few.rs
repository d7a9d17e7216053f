//! Numbers of which there is nearly always one: kept in place then, without memory of their own.

#[derive(Clone, Debug)]
pub(crate) enum Few {
    One([u32; 1]),
    Many(Vec<u32>),
}

impl Default for Few {
    fn default() -> Self {
        Few::Many(Vec::new())
    }
}

impl FromIterator<u32> for Few {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut rest = numbers.into_iter();
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

impl Few {
    pub(crate) fn all(&self) -> &[u32] {
        match self {
            Few::One(one) => one,
            Few::Many(many) => many,
        }
    }

    pub(crate) fn push(&mut self, number: u32) {
        *self = self.all().iter().copied().chain([number]).collect();
    }

    pub(crate) fn remove(&mut self, number: u32) {
        match self {
            Few::One([one]) if *one == number => *self = Few::default(),
            Few::One(_) => {}
            Few::Many(many) => many.retain(|other| *other != number),
        }
    }
}
