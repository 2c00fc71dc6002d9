package schemas

// bucketKinds are the model's buckets.
var bucketKinds = []string{"functions", "leases", "members", "plans", "trials"}

// BucketKinds lists the kinds of a model's buckets, in the order of their names.
func BucketKinds() []string { return append([]string(nil), bucketKinds...) }

// BucketBytes bounds a bucket far above what its owners write, so that whoever fills
// one with keys of his own does not fill the server's disk.
const BucketBytes = 128 << 20

// Reservation is the bytes that streams and buckets may take. A NATS server sets them aside
// when a stream is made, however little the stream holds, and makes no stream for whose
// bytes its limits (max_file_store, max_memory_store) have no room.
type Reservation struct {
	File, Memory int64
}

// Plus adds two reservations up.
func (r Reservation) Plus(other Reservation) Reservation {
	return Reservation{File: r.File + other.File, Memory: r.Memory + other.Memory}
}

// ReservedBy is what these streams reserve on each server that has them.
func ReservedBy(specs ...StreamSpec) (r Reservation) {
	for _, s := range specs {
		if s.Memory {
			r.Memory += s.MaxBytes
		} else {
			r.File += s.MaxBytes
		}
	}
	return r
}

// ReservedByBuckets is what so many buckets reserve.
func ReservedByBuckets(buckets int) Reservation {
	return Reservation{File: int64(buckets) * BucketBytes}
}

// Reserves is what all streams and buckets of a model with these MoE layers reserve.
// Weights in the object store are not among it: their stream has no bound.
func (s Streams) Reserves(moeLayers []int) Reservation {
	return ReservedBy(s.Durable()...).Plus(ReservedBy(s.Tensors(moeLayers)...)).Plus(ReservedByBuckets(len(bucketKinds)))
}
