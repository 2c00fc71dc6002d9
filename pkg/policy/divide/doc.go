// Package divide says which of an expert's replicas compute its rows in a step.
//
// Even is what MoEless prints (§4.2): all of them, equally many rows each. Where weights
// are read once an access, that makes decode slower with each replica: few rows
// are computed in the time of one reading, and every replica that gets some reads again.
// Least divides an expert's rows only where that ends the layer sooner, and gives the
// rest to the replica whose host is least busy.
package divide
