//! What a stack is: the grammar, the layers, their types and their expansion. Pure: no processes, no files.
