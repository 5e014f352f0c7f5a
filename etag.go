// etag.go owns entity tags (RFC 9110 section 8.8.3): building ours, reading the lists
// of If-Match and If-None-Match, and the two comparisons. Pure: it sees the text of
// header lines and must not know requests, nor what a tag stands for.

package main

import (
	"slices"
	"strconv"
	"strings"
)

// weakPrefix marks a weak tag. It is case-sensitive (RFC 9110 section 8.8.3).
const weakPrefix = "W/"

// etagList is what an If-Match or If-None-Match field holds: any tag (`*`), or
// a list of tags. The zero value matches nothing; so does whatever is
// malformed, because a condition that was not understood must not hold.
type etagList struct {
	star bool
	tags []entityTag
}

// entityTag is one tag of a list. opaque keeps its quotes.
type entityTag struct {
	opaque string
	weak   bool
}

// buildETag is the strong entity tag `"ID-VERSION-STORE"` of one version of a
// service, with its quotes. store tells one database from another.
func buildETag(id, version int64, store string) string {
	return `"` + strconv.FormatInt(id, 10) + "-" + strconv.FormatInt(version, 10) + "-" + store + `"`
}

// parseETagList reads the lines of an If-Match or If-None-Match field (RFC 9110
// sections 13.1.1 and 13.1.2). Several lines are one comma list. Empty elements
// are skipped (section 5.6.1.2).
func parseETagList(lines []string) etagList {
	// Joined as section 5.3 says, comma and space: the space is no part of a
	// tag, so a quote left open on one line cannot be closed by the next.
	rest := trimOWS(strings.Join(lines, ", "))
	if rest == "*" {
		return etagList{star: true}
	}
	var list etagList
	for rest != "" {
		if rest[0] == ',' {
			rest = trimOWS(rest[1:])
			continue
		}
		tag, after, ok := cutEntityTag(rest)
		if !ok {
			return etagList{}
		}
		rest = trimOWS(after)
		if rest != "" && rest[0] != ',' {
			return etagList{}
		}
		list.tags = append(list.tags, tag)
	}
	return list
}

// matchesWeak says whether tag is in the list by weak comparison (RFC 9110
// section 8.8.3.2), which is that of If-None-Match. `*` matches every tag.
func (l etagList) matchesWeak(tag string) bool {
	opaque := strings.TrimPrefix(tag, weakPrefix)
	return l.star || slices.ContainsFunc(l.tags, func(t entityTag) bool {
		return t.opaque == opaque
	})
}

// matchesStrong says whether tag is in the list by strong comparison (RFC 9110
// section 8.8.3.2), which is that of If-Match: neither side may be weak. `*`
// matches every tag.
func (l etagList) matchesStrong(tag string) bool {
	return l.star || slices.Contains(l.tags, entityTag{opaque: tag})
}

// cutEntityTag reads the entity tag that s begins with, and returns what
// follows it.
func cutEntityTag(s string) (tag entityTag, after string, ok bool) {
	s, weak := strings.CutPrefix(s, weakPrefix)
	if s == "" || s[0] != '"' {
		return entityTag{}, "", false
	}
	for i := 1; i < len(s); i++ {
		if s[i] == '"' {
			return entityTag{opaque: s[:i+1], weak: weak}, s[i+1:], true
		}
		if !isETagByte(s[i]) {
			return entityTag{}, "", false
		}
	}
	return entityTag{}, "", false
}

// isETagByte is etagc of RFC 9110 section 8.8.3: visible ASCII but the double
// quote, and obs-text.
func isETagByte(c byte) bool {
	return c == 0x21 || 0x23 <= c && c <= 0x7E || c >= 0x80
}
