// status.go owns what a status code says by itself: its reason phrase in the IANA HTTP
// Status Code Registry, and whether it admits content. Go's own table differs for 413,
// 422 and others, and our titles must not change with the Go release. Pure: it knows no
// server and no problem.

package main

// registeredPhrases is the IANA "HTTP Status Code Registry" (RFC 9110 section
// 16.2.1), final status codes and the interim ones alike. Codes the registry
// marks as unused keep its mark.
var registeredPhrases = map[int]string{
	100: "Continue",
	101: "Switching Protocols",
	102: "Processing",
	103: "Early Hints",
	104: "Upload Resumption Supported",
	200: "OK",
	201: "Created",
	202: "Accepted",
	203: "Non-Authoritative Information",
	204: "No Content",
	205: "Reset Content",
	206: "Partial Content",
	207: "Multi-Status",
	208: "Already Reported",
	226: "IM Used",
	300: "Multiple Choices",
	301: "Moved Permanently",
	302: "Found",
	303: "See Other",
	304: "Not Modified",
	305: "Use Proxy",
	306: "(Unused)",
	307: "Temporary Redirect",
	308: "Permanent Redirect",
	400: "Bad Request",
	401: "Unauthorized",
	402: "Payment Required",
	403: "Forbidden",
	404: "Not Found",
	405: "Method Not Allowed",
	406: "Not Acceptable",
	407: "Proxy Authentication Required",
	408: "Request Timeout",
	409: "Conflict",
	410: "Gone",
	411: "Length Required",
	412: "Precondition Failed",
	413: "Content Too Large",
	414: "URI Too Long",
	415: "Unsupported Media Type",
	416: "Range Not Satisfiable",
	417: "Expectation Failed",
	418: "(Unused)",
	421: "Misdirected Request",
	422: "Unprocessable Content",
	423: "Locked",
	424: "Failed Dependency",
	425: "Too Early",
	426: "Upgrade Required",
	428: "Precondition Required",
	429: "Too Many Requests",
	431: "Request Header Fields Too Large",
	451: "Unavailable For Legal Reasons",
	500: "Internal Server Error",
	501: "Not Implemented",
	502: "Bad Gateway",
	503: "Service Unavailable",
	504: "Gateway Timeout",
	505: "HTTP Version Not Supported",
	506: "Variant Also Negotiates",
	507: "Insufficient Storage",
	508: "Loop Detected",
	510: "Not Extended",
	511: "Network Authentication Required",
}

// statusPhrase returns the registry's phrase for a status code, "Unassigned" (the
// registry's own word) for a code that it does not list.
func statusPhrase(status int) string {
	if phrase, ok := registeredPhrases[status]; ok {
		return phrase
	}
	return "Unassigned"
}

// noContent tells whether a final status admits no content: 204 and 304 by their
// framing, 205 because a server must not send any (RFC 9110 section 15.3.6).
func noContent(status int) bool {
	return status == 204 || status == 205 || status == 304
}
