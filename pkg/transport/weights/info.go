package weights

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/compute/digest"
)

// digestKind begins digests in what a store knows of objects.
const digestKind = "SHA-256="

// parseInfo reads what a store knows of an object of that name, and believes
// nothing that a manifest may not say.
func parseInfo(name string, data []byte) (digest.Object, error) {
	var i jetstream.ObjectInfo
	if err := json.Unmarshal(data, &i); err != nil {
		return digest.Object{}, fmt.Errorf("reading what the store knows of it: %w", err)
	}
	if i.Name != name || i.Deleted {
		return digest.Object{}, fmt.Errorf("the store has %.80q in its place (deleted: %v)", i.Name, i.Deleted)
	}
	text, ours := strings.CutPrefix(i.Digest, digestKind)
	sum, err := base64.URLEncoding.DecodeString(text)
	if !ours || err != nil || len(sum) != len(digest.Sum{}) {
		return digest.Object{}, fmt.Errorf("digest %.80q is no SHA-256", i.Digest)
	}
	o := digest.Object{Name: i.Name, Key: i.NUID, Bytes: int64(i.Size), Chunks: int(i.Chunks), Sum: digest.Sum(sum)}
	return o, o.Check()
}

// encodeInfo writes it as the nats command line reads it.
func (s *Store) encodeInfo(o digest.Object, chunk int) ([]byte, error) {
	return json.Marshal(jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: o.Name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: uint32(chunk)}},
		Bucket:     s.bucket, NUID: o.Key, Size: uint64(o.Bytes), Chunks: uint32(o.Chunks),
		Digest: digestKind + base64.URLEncoding.EncodeToString(o.Sum[:]),
	})
}
