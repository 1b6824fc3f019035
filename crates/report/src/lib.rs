//! Reports: what a person reads of the results, on a terminal and in a browser.
