package filter

// What follows walks over JSON text that somebody else has found, or will find, to be
// right. It stays within any other text too, and is done with it once it has passed over
// it: each byte is looked at once.

// eachMember calls f with each name, in its quotes, and value of the object that data
// begins with, until f returns false.
func eachMember(data []byte, f func(key, value []byte) bool) {
	i := space(data, 0)
	if i >= len(data) || data[i] != '{' {
		return
	}
	for i = space(data, i+1); i < len(data) && data[i] == '"'; {
		key := i
		i = skip(data, i)
		end := i
		if i = space(data, i); i >= len(data) || data[i] != ':' {
			return
		}
		i = space(data, i+1)
		from := i
		i = skip(data, i)
		if !f(data[key:end], data[from:i]) {
			return
		}
		if i = space(data, i); i >= len(data) || data[i] != ',' {
			return
		}
		i = space(data, i+1)
	}
}

// eachItem calls f with each item of the array that data begins with, until f returns
// false.
func eachItem(data []byte, f func(value []byte) bool) {
	i := space(data, 0)
	if i >= len(data) || data[i] != '[' {
		return
	}
	for i = space(data, i+1); i < len(data) && data[i] != ']'; i = space(data, i+1) {
		from := i
		i = skip(data, i)
		if i == from || !f(data[from:i]) {
			return
		}
		if i = space(data, i); i >= len(data) || data[i] != ',' {
			return
		}
	}
}

func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// skip is the place after the value at i.
func skip(data []byte, i int) int {
	if i >= len(data) {
		return i
	}
	switch data[i] {
	case '"':
		return skipString(data, i)
	case '{', '[':
		return skipComposite(data, i)
	}
	for ; i < len(data); i++ {
		switch data[i] {
		case ',', '}', ']', ' ', '\n', '\t', '\r', ':', '"':
			return i
		}
	}
	return i
}

func skipString(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch c := data[i]; {
		case c > '\\':
		case c == '"':
			return i + 1
		case c == '\\':
			i++
		}
	}
	return len(data)
}

// skipComposite counts braces and needs no stack, however deep it goes.
func skipComposite(data []byte, i int) int {
	depth := 0
	for i < len(data) {
		switch data[i] {
		case '"':
			i = skipString(data, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return i
}
