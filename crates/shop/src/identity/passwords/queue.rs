//! A bounded queue that is fair: it serves one entry of each line in turn, and when it is full, the longest
//! line loses its last entry. So a client that sends a thousand delays only itself. It knows nothing about
//! its entries.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

pub(super) struct FairQueue<K, T> {
    lines: HashMap<K, VecDeque<T>>,
    /// The lines in the order in which they are served; none of them is empty.
    turns: VecDeque<K>,
    waiting: usize,
    max_waiting: usize,
}

impl<K: Hash + Eq + Clone, T> FairQueue<K, T> {
    pub(super) fn new(max_waiting: usize) -> Self {
        Self { lines: HashMap::new(), turns: VecDeque::new(), waiting: 0, max_waiting }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting >= self.max_waiting
    }

    /// Whether the queue would accept one more entry of this line now.
    pub(super) fn has_place(&self, line: &K) -> bool {
        !self.is_full() || self.line_to_shorten(line).is_some()
    }

    /// Puts `item` at the end of its line. If the queue is full, returns the item that has no place: the last
    /// one of the longest line, or `item` itself if its own line is as long as any.
    pub(super) fn push(&mut self, line: K, item: T) -> Option<T> {
        let mut displaced = None;
        if self.is_full() {
            let Some(longest) = self.line_to_shorten(&line).cloned() else { return Some(item) };
            displaced = self.lines.get_mut(&longest).and_then(VecDeque::pop_back);
            self.waiting -= 1;
        }
        if self.length(&line) == 0 {
            self.turns.push_back(line.clone());
        }
        self.lines.entry(line).or_default().push_back(item);
        self.waiting += 1;
        displaced
    }

    /// The line that loses its last item to one more of `line` when the queue is full. The search is bounded
    /// by the number that may wait.
    fn line_to_shorten(&self, line: &K) -> Option<&K> {
        let (longest, waiting) = self.lines.iter().max_by_key(|(_, waiting)| waiting.len())?;
        (waiting.len() > self.length(line) + 1).then_some(longest)
    }

    fn length(&self, line: &K) -> usize {
        self.lines.get(line).map_or(0, VecDeque::len)
    }

    /// Takes the first item of the line whose turn it is.
    pub(super) fn pop(&mut self) -> Option<T> {
        let line = self.turns.pop_front()?;
        let waiting = self.lines.get_mut(&line)?;
        let item = waiting.pop_front()?;
        if waiting.is_empty() {
            self.lines.remove(&line);
        } else {
            self.turns.push_back(line);
        }
        self.waiting -= 1;
        Some(item)
    }

    /// Drops the unwanted items.
    pub(super) fn retain(&mut self, mut is_wanted: impl FnMut(&T) -> bool) {
        let lines = &mut self.lines;
        lines.retain(|_, waiting| {
            waiting.retain(&mut is_wanted);
            !waiting.is_empty()
        });
        self.turns.retain(|line| lines.contains_key(line));
        self.waiting = lines.values().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(queue: &mut FairQueue<char, u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn lines_are_served_in_turns() {
        let mut queue = FairQueue::new(10);
        for item in 1..=4 {
            assert_eq!(queue.push('a', item), None);
        }
        assert_eq!((queue.push('b', 5), queue.push('c', 6), queue.push('b', 7)), (None, None, None));
        assert_eq!(drain(&mut queue), [1, 5, 6, 2, 7, 3, 4]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_newcomer_takes_the_last_place_of_the_longest_line() {
        let mut queue = FairQueue::new(4);
        for item in 1..=4 {
            assert_eq!(queue.push('a', item), None);
        }
        assert!(!queue.has_place(&'a') && queue.has_place(&'b'));
        assert_eq!(queue.push('a', 5), Some(5), "a line does not displace itself");
        assert_eq!(queue.push('b', 6), Some(4));
        assert_eq!(queue.push('b', 7), Some(3), "until both are equally long");
        assert_eq!(queue.push('b', 8), Some(8));
        assert!(
            queue.push('c', 9).is_some_and(|item| item == 2 || item == 7),
            "one of the two loses its last"
        );
    }

    #[test]
    fn a_flood_of_lines_with_one_item_can_fill_it_but_not_displace_others() {
        let mut queue = FairQueue::new(2);
        assert_eq!((queue.push('a', 1), queue.push('b', 2)), (None, None));
        assert_eq!(queue.push('c', 3), Some(3));
        assert_eq!(drain(&mut queue), [1, 2]);
        let mut queue = FairQueue::new(0);
        assert_eq!(queue.push('a', 1), Some(1), "a queue without places accepts nothing");
    }

    #[test]
    fn an_unwanted_item_gives_its_place_back() {
        let mut queue = FairQueue::new(3);
        for (line, item) in [('a', 1), ('b', 2), ('a', 3)] {
            assert_eq!(queue.push(line, item), None);
        }
        assert!(!queue.has_place(&'b'));
        queue.retain(|item| *item == 3);
        assert!(queue.has_place(&'b'));
        assert_eq!(queue.push('b', 4), None);
        assert_eq!(drain(&mut queue), [3, 4]);
    }
}
