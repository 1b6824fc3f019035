//! Storage for what is in flight: things by number, numbers used again.

/// Number of a thing in a [`Slab`].
pub(super) type Id = u32;

/// No thing.
pub(super) const NONE: Id = Id::MAX;

/// Things by number. Freed numbers are given out again, so that memory follows the most ever in use at once.
#[derive(Debug)]
pub(super) struct Slab<T> {
    things: Vec<T>,
    free: Vec<Id>,
}

impl<T> Slab<T> {
    pub fn new() -> Self {
        Self { things: Vec::new(), free: Vec::new() }
    }

    /// How many are in use.
    pub fn in_use(&self) -> usize {
        self.things.len() - self.free.len()
    }

    /// All numbers given out so far, in use or free.
    pub fn ids(&self) -> std::ops::Range<Id> {
        0..self.things.len() as Id
    }

    /// The value at a number, if it was ever given out.
    pub fn get(&self, id: Id) -> Option<&T> {
        self.things.get(id as usize)
    }

    pub fn add(&mut self, thing: T) -> Id {
        if let Some(id) = self.free.pop() {
            self.things[id as usize] = thing;
            return id;
        }
        self.things.push(thing);
        (self.things.len() - 1) as Id
    }

    /// Frees a number; what stood there stays readable until the number is used again.
    pub fn free(&mut self, id: Id) {
        self.free.push(id);
    }
}

impl<T> std::ops::Index<Id> for Slab<T> {
    type Output = T;
    fn index(&self, id: Id) -> &T {
        &self.things[id as usize]
    }
}

impl<T> std::ops::IndexMut<Id> for Slab<T> {
    fn index_mut(&mut self, id: Id) -> &mut T {
        &mut self.things[id as usize]
    }
}
