package schemas

import "slices"

var bucketKinds = []string{"brownout", "functions", "leases", "members", "plans", "trials"}

// BucketKinds lists the kinds of a model's buckets, in the order of their names.
func BucketKinds() []string { return slices.Clone(bucketKinds) }

// BucketBytes bounds a bucket far above what its owners write, so that whoever fills
// one with keys of his own does not fill the server's disk.
const BucketBytes = 128 << 20

// Room is bytes that streams and buckets may take. A NATS server sets them aside when a
// stream is made, however little the stream holds, and makes no stream for whose bytes its
// limits (max_memory_store, max_file_store) are too small.
type Room struct {
	Memory, File int64
}

// Plus adds up.
func (r Room) Plus(other Room) Room {
	return Room{Memory: r.Memory + other.Memory, File: r.File + other.File}
}

// RoomOf returns what these streams take of each server that has them.
func RoomOf(specs ...StreamSpec) (r Room) {
	for _, s := range specs {
		if s.Memory {
			r.Memory += s.MaxBytes
		} else {
			r.File += s.MaxBytes
		}
	}
	return r
}

// Room returns what one copy of all streams and buckets of a model with these MoE layers takes.
// Weights in the object store are not among it: their stream has no bound.
func (s Streams) Room(moeLayers []int) Room {
	buckets := Room{File: int64(len(bucketKinds)) * BucketBytes}
	return RoomOf(s.Durable()...).Plus(RoomOf(s.Tensors(moeLayers)...)).Plus(buckets)
}

// All names all streams of a model with these MoE layers, those of its buckets among them.
func (s Streams) All(moeLayers []int) (names []string) {
	for _, spec := range slices.Concat(s.Durable(), s.Tensors(moeLayers)) {
		names = append(names, spec.Name)
	}
	for _, kind := range bucketKinds {
		names = append(names, BucketStream(s.Bucket(kind)))
	}
	return names
}

// Trial returns the stream by which a server shows how much room it has: it holds nothing, and
// is removed at once.
func (s Streams) Trial() StreamSpec {
	return StreamSpec{Name: s.name("ROOM"), Subjects: []string{s.Subjects.join("room", s.Subjects.Model)}}
}
