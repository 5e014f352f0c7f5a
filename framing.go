// framing.go owns how several texts become one, so that what is made of it (a hash, a key)
// tells every list of texts from every other. Pure: it must not know what the texts are.

package main

import "encoding/binary"

// appendFramed appends each part behind its length in bytes, so that no two lists of as
// many parts are spelled alike.
func appendFramed[text string | []byte](to []byte, parts ...text) []byte {
	for _, part := range parts {
		to = binary.BigEndian.AppendUint64(to, uint64(len(part)))
		to = append(to, part...)
	}
	return to
}
