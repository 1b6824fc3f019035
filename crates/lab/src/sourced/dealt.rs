//! Which instance is on which node: they are dealt to the nodes in turn, as cards are.

/// The node of an instance, and which of that node's it is. All are counted from 0.
pub const fn place(instance: usize, nodes: usize) -> (usize, usize) {
    (instance % nodes, instance / nodes)
}

/// How many of so many instances a node has.
pub fn of_node(node: usize, nodes: usize, instances: u32) -> u32 {
    (0..instances).filter(|instance| place(*instance as usize, nodes).0 == node).count() as u32
}

/// What is of each instance, by nodes.
pub fn deal<T>(of_instances: impl IntoIterator<Item = T>, nodes: usize) -> Vec<Vec<T>> {
    let mut by_node: Vec<Vec<T>> = (0..nodes).map(|_| Vec::new()).collect();
    for (instance, of_instance) in of_instances.into_iter().enumerate() {
        by_node[place(instance, nodes).0].push(of_instance);
    }
    by_node
}

/// What is of each instance, in the order of instances.
pub fn gather<T>(by_node: Vec<Vec<T>>) -> Vec<T> {
    let mut rests: Vec<_> = by_node.into_iter().map(Vec::into_iter).collect();
    let mut gathered = Vec::new();
    loop {
        let before = gathered.len();
        gathered.extend(rests.iter_mut().filter_map(Iterator::next));
        if gathered.len() == before {
            return gathered;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_go_to_the_nodes_in_turn() {
        assert_eq!(deal(0..5, 2), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!([of_node(0, 2, 5), of_node(1, 2, 5)], [3, 2]);
        assert_eq!(place(4, 2), (0, 2));
    }

    #[test]
    fn what_is_dealt_is_gathered_in_its_order() {
        for (instances, nodes) in (0..40).flat_map(|instances| (1..9).map(move |nodes| (instances, nodes))) {
            let dealt = deal(0..instances, nodes);
            for (node, own) in dealt.iter().enumerate() {
                assert_eq!(own.len(), of_node(node, nodes, instances as u32) as usize);
                for (at, instance) in own.iter().enumerate() {
                    assert_eq!(place(*instance, nodes), (node, at));
                }
            }
            assert_eq!(gather(dealt), (0..instances).collect::<Vec<_>>());
        }
    }
}
