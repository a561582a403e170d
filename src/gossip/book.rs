//! Which node is to be found at an address: chitchat knows addresses, and a call needs to know whom to expect.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::ids::NodeId;
use crate::peer::Address;

/// Who is where; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Book {
    me: NodeId,
    pages: Arc<Mutex<Pages>>,
}

#[derive(Debug, Default)]
struct Pages {
    /// By the configuration.
    controllers: BTreeMap<SocketAddr, NodeId>,
    /// By their own word, under their certificates.
    callers: BTreeMap<NodeId, SocketAddr>,
    /// By the word of anybody.
    members: BTreeMap<SocketAddr, NodeId>,
}

impl Book {
    pub(super) fn new(me: NodeId) -> Self {
        Self { me, pages: Arc::default() }
    }

    /// Whom to call at an address; `None`: nobody that is known, or this node itself.
    pub(super) fn whom(&self, at: SocketAddr) -> Option<Address> {
        let pages = self.pages();
        let caller = || pages.callers.iter().find(|(_, from)| **from == at).map(|(node, _)| node);
        let node = pages.controllers.get(&at).or_else(caller).or_else(|| pages.members.get(&at));
        let node = node.copied().filter(|node| *node != self.me)?;
        Some(Address { node, at: at.to_string() })
    }

    pub(super) fn set_controllers(&self, controllers: BTreeMap<SocketAddr, NodeId>) {
        self.pages().controllers = controllers;
    }

    pub(super) fn note_caller(&self, node: NodeId, at: SocketAddr) {
        self.pages().callers.insert(node, at);
    }

    pub(super) fn set_members(&self, members: BTreeMap<SocketAddr, NodeId>) {
        self.pages().members = members;
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    fn node(id: u16) -> NodeId {
        NodeId(NonZeroU16::new(id).unwrap())
    }

    fn at(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn the_configuration_is_believed_before_a_caller_and_a_caller_before_hearsay() {
        let book = Book::new(node(1));
        assert_eq!(book.whom(at(1)), None, "nobody is called whose name is not known");
        book.set_members([(at(1), node(2)), (at(2), node(3)), (at(3), node(4)), (at(4), node(1))].into());
        book.note_caller(node(5), at(2));
        book.note_caller(node(6), at(3));
        book.set_controllers([(at(3), node(7))].into());
        let whom = |port| book.whom(at(port)).map(|address| address.node);
        assert_eq!([1, 2, 3, 4].map(whom), [Some(node(2)), Some(node(5)), Some(node(7)), None]);
        book.note_caller(node(5), at(9));
        assert_eq!(whom(2), Some(node(3)), "who has moved is where it last said");
    }
}
