"""Features of places in a text, the linear models over them, and the loop that finds tokens and sentences.

Three logistic models with hashed features decide, from left to right: whether a token ends at a character, whether a
sentence ends with a token, and whether a token is a multiword token. Features are strings of characters, kinds of
characters, and words around the place; none looks further than `REACH` visible characters to either side, except for
the tokens of the sentence so far, so that what is decided does not depend on how the text is cut into pieces.
"""

import numba
import numpy as np

from arbora.decoders.kernels.options import HELPER, KERNEL

REACH = 96
"""Visible characters on either side that features depend on at most."""

SPAN = 24
"""Longest string that is a feature as a whole; of a longer one, its first characters are."""

MOST = 48
"""Size of an array for the features of one place."""

INSIDE, TOKEN, SENTENCE = range(3)
"""Kinds of boundaries after a character."""

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


@numba.njit(**HELPER)
def _mix(h, value):
    h = (h ^ np.uint64(value)) * _MULTIPLIER
    return h ^ (h >> _SHIFT)


@numba.njit(**HELPER)
def _string(values, first, end):
    """Hash of `values[first:end]`."""
    h = _mix(np.uint64(7), end - first)
    for i in range(first, min(end, first + SPAN)):
        h = _mix(h, values[i])
    return h


@numba.njit(**HELPER)
def _shape(kind, first, end):
    """Hash of the kinds of characters, each run of one kind taken once, and whether there are several."""
    h, last, run = np.uint64(11), -1, 0
    for i in range(first, min(end, first + SPAN)):
        if kind[i] != last:
            h, last, run = _mix(h, kind[i]), kind[i], 1
        elif run == 1:
            h, run = _mix(h, 99), 2
    return h


@numba.njit(**HELPER)
def _is_word(kind):
    return 1 <= kind <= 5


@numba.njit(**HELPER)
def _end_of_word(kind, gap, first, end):
    """End of what starts at `first`: letters, digits and marks, or one other character."""
    i = first + 1
    if first < end and _is_word(kind[first]):
        while i < min(end, first + SPAN) and gap[i] == 0 and _is_word(kind[i]):
            i += 1
    return min(i, end)


@numba.njit(**HELPER)
def _bucket(n):
    """Numbers up to 5 as they are, larger ones by their size."""
    if n <= 5:
        return n
    return 6 if n < 8 else 7 if n < 12 else 8 if n < 17 else 9 if n < 25 else 10 if n < 40 else 11


@numba.njit(**HELPER)
def _put(out, n, shift, h):
    """Append a feature: its number, which is its hash, cut to the size of the table."""
    out[n] = np.int64(_mix(h, n) >> shift)
    return n + 1


@numba.njit(**HELPER)
def _at(values, first, end, i):
    """The entry i, or 0 outside of first..end."""
    return np.uint64(values[i]) if first <= i < end else np.uint64(0)


@numba.njit(**HELPER)
def _kinds_of(lower, kind, first, end):
    """Bits for what occurs in a string: kinds of characters, and marks that web addresses and numbers have."""
    bits = 0
    for i in range(first, end):
        bits |= 1 << kind[i]
        c = lower[i]
        if c == 46:  # .
            bits |= 1 << 10
        elif c == 64:  # @
            bits |= 1 << 11
        elif c == 47:  # /
            bits |= 1 << 12
        elif c == 58:  # :
            bits |= 1 << 13
        elif c == 45:  # -
            bits |= 1 << 14
    return bits


@numba.njit(**HELPER)
def token_features(characters, end, token, chunk, k, shift, out):
    """Features of the place behind character k.

    Args:
        characters: of the text.
        end: of the paragraph.
        token: first character of the token that k is in.
        chunk: first character after the last white space.
        k: a character.
        shift: 64 less the binary logarithm of the size of the table.
        out: is filled with the features.

    Returns:
        The number of features.
    """
    _, lower, kind, gap = characters
    chunk = max(chunk, k + 1 - SPAN)
    token = max(token, k + 1 - SPAN)
    stop = k + 1
    while stop < min(end, k + SPAN) and gap[stop] == 0:
        stop += 1
    a1, a2, a3, a4 = (lower[k], _at(lower, chunk, k, k - 1), _at(lower, chunk, k, k - 2), _at(lower, chunk, k, k - 3))
    b1, b2 = _at(lower, k, stop, k + 1), _at(lower, k, stop, k + 2)
    b3, b4 = _at(lower, k, stop, k + 3), _at(lower, k, stop, k + 4)
    j1, j2, j3 = kind[k], _at(kind, chunk, k, k - 1), _at(kind, chunk, k, k - 2)
    l1, l2, l3 = _at(kind, k, stop, k + 1), _at(kind, k, stop, k + 2), _at(kind, k, stop, k + 3)
    left, right, word = _string(lower, chunk, k + 1), _string(lower, k + 1, stop), _string(lower, token, k + 1)
    left_shape, right_shape = _shape(kind, chunk, k + 1), _shape(kind, k + 1, stop)
    after = _at(kind, k, end, stop)  # of the next chunk
    pair = _mix(_mix(np.uint64(1), a1), b1)
    kinds = _mix(_mix(np.uint64(2), j1), l1)
    n = _put(out, 0, shift, np.uint64(0))
    n = _put(out, n, shift, np.uint64(a1))
    n = _put(out, n, shift, b1)
    n = _put(out, n, shift, a2)
    n = _put(out, n, shift, b2)
    n = _put(out, n, shift, pair)
    n = _put(out, n, shift, _mix(_mix(a2, a1), 0))
    n = _put(out, n, shift, _mix(_mix(b1, b2), 0))
    n = _put(out, n, shift, _mix(pair, a2))
    n = _put(out, n, shift, _mix(pair, b2))
    n = _put(out, n, shift, _mix(_mix(a3, a2), a1))
    n = _put(out, n, shift, _mix(_mix(b1, b2), b3))
    n = _put(out, n, shift, _mix(_mix(pair, a2), b2))
    n = _put(out, n, shift, _mix(_mix(pair, a2), a3))
    n = _put(out, n, shift, _mix(_mix(pair, b2), b3))
    n = _put(out, n, shift, _mix(_mix(_mix(_mix(pair, a2), a3), a4), b2))
    n = _put(out, n, shift, _mix(_mix(_mix(_mix(pair, b2), b3), b4), a2))
    n = _put(out, n, shift, kinds)
    n = _put(out, n, shift, _mix(_mix(kinds, j2), l2))
    n = _put(out, n, shift, _mix(_mix(_mix(_mix(kinds, j2), l2), j3), l3))
    n = _put(out, n, shift, _mix(pair, _mix(_mix(kinds, j2), l2)))
    n = _put(out, n, shift, left)
    n = _put(out, n, shift, right)
    n = _put(out, n, shift, _mix(left, right))
    n = _put(out, n, shift, _mix(word, b1))
    n = _put(out, n, shift, _mix(word, right))
    n = _put(out, n, shift, _mix(left_shape, right_shape))
    n = _put(out, n, shift, _mix(right, after))
    n = _put(out, n, shift, _mix(_mix(left, right), after))
    n = _put(out, n, shift, _mix(_mix(left_shape, right), after))
    n = _put(out, n, shift, _mix(_mix(kinds, _bucket(k + 1 - token)), pair))
    bits = _mix(np.uint64(_kinds_of(lower, kind, chunk, k + 1)), _kinds_of(lower, kind, k + 1, stop))
    return _put(out, n, shift, _mix(bits, pair))


@numba.njit(**HELPER)
def sentence_features(characters, end, starts, tokens, k, shift, out):
    """Features of the place behind character k, where a token ends; arguments as in `token_features`.

    Args:
        starts: first characters of the tokens of the sentence so far.
        tokens: how many these are.
    """
    _, lower, kind, gap = characters
    t0 = max(starts[tokens - 1], k + 1 - SPAN)
    word0, shape0 = _string(lower, t0, k + 1), _shape(kind, t0, k + 1)
    word1 = word2 = shape1 = np.uint64(3)
    if tokens > 1:
        word1 = _string(lower, starts[tokens - 2], min(t0, starts[tokens - 2] + SPAN))
        shape1 = _shape(kind, starts[tokens - 2], min(t0, starts[tokens - 2] + SPAN))
    if tokens > 2:
        word2 = _string(lower, starts[tokens - 3], min(starts[tokens - 2], starts[tokens - 3] + SPAN))
    first = _string(lower, starts[0], min(k + 1, _end_of_word(kind, gap, starts[0], k + 1)))
    e1 = _end_of_word(kind, gap, k + 1, end)
    e2 = _end_of_word(kind, gap, e1, end)
    e3 = _end_of_word(kind, gap, e2, end)
    next1, next2, next3 = _string(lower, k + 1, e1), _string(lower, e1, e2), _string(lower, e2, e3)
    form1, form2 = _shape(kind, k + 1, e1), _shape(kind, e1, e2)
    space = np.uint64(gap[k + 1] > 0)
    form1 = _mix(form1, space)
    next1 = _mix(next1, space)
    form2 = _mix(form2, e1 < end and gap[e1] > 0)
    length = _bucket(tokens)
    opened = 0
    for i in range(max(0, tokens - 40), tokens):
        c = lower[starts[i]]
        if c == 40 or c == 91:
            opened |= 1
        elif c == 41 or c == 93:
            opened &= ~1
        elif c == 34:
            opened ^= 2
        elif c == 0x201C or c == 0xAB:
            opened |= 2
        elif c == 0x201D or c == 0xBB:
            opened &= ~2
    n = _put(out, 0, shift, space)
    n = _put(out, n, shift, word0)
    n = _put(out, n, shift, next1)
    n = _put(out, n, shift, shape0)
    n = _put(out, n, shift, form1)
    n = _put(out, n, shift, _mix(word0, form1))
    n = _put(out, n, shift, _mix(shape0, form1))
    n = _put(out, n, shift, _mix(shape0, next1))
    n = _put(out, n, shift, _mix(word0, next1))
    n = _put(out, n, shift, _mix(word1, word0))
    n = _put(out, n, shift, _mix(_mix(word1, word0), form1))
    n = _put(out, n, shift, _mix(_mix(shape1, word0), form1))
    n = _put(out, n, shift, _mix(_mix(word2, word1), word0))
    n = _put(out, n, shift, _mix(next1, next2))
    n = _put(out, n, shift, _mix(_mix(next1, next2), next3))
    n = _put(out, n, shift, _mix(_mix(word0, next1), next2))
    n = _put(out, n, shift, _mix(_mix(word1, word0), next1))
    n = _put(out, n, shift, _mix(_mix(shape0, form1), form2))
    n = _put(out, n, shift, _mix(_mix(word0, form1), form2))
    n = _put(out, n, shift, _mix(_mix(word0, form1), next2))
    n = _put(out, n, shift, _mix(next2, space))
    n = _put(out, n, shift, _mix(next3, space))
    n = _put(out, n, shift, word1)
    n = _put(out, n, shift, _mix(shape0, length))
    n = _put(out, n, shift, _mix(_mix(shape0, length), form1))
    n = _put(out, n, shift, _mix(next1, length))
    n = _put(out, n, shift, _mix(word0, opened))
    n = _put(out, n, shift, _mix(_mix(word0, opened), form1))
    n = _put(out, n, shift, _mix(_mix(first, word0), form1))
    n = _put(out, n, shift, _mix(_mix(_bucket(k + 1 - t0), shape0), form1))
    ending = _string(lower, max(t0, k - 2), k + 1)
    n = _put(out, n, shift, ending)
    n = _put(out, n, shift, _mix(ending, form1))
    n = _put(out, n, shift, _mix(ending, _string(lower, k + 1, min(e1, k + 4))))
    return _put(out, n, shift, _mix(_mix(lower[k], _at(lower, starts[0], end, k - 1)), form1))


@numba.njit(**HELPER)
def multiword_features(characters, end, starts, tokens, k, shift, out):
    """Features of the token that ends with character k; arguments as in `sentence_features`."""
    _, lower, kind, gap = characters
    t0 = starts[tokens - 1]
    word = _string(lower, t0, k + 1)
    previous = np.uint64(3)
    if tokens > 1:
        previous = _string(lower, starts[tokens - 2], min(t0, starts[tokens - 2] + SPAN))
    following = _string(lower, k + 1, _end_of_word(kind, gap, k + 1, end))
    shape = _shape(kind, t0, k + 1)
    n = _put(out, 0, shift, np.uint64(0))
    n = _put(out, n, shift, word)
    n = _put(out, n, shift, _mix(word, shape))
    n = _put(out, n, shift, shape)
    n = _put(out, n, shift, _mix(word, previous))
    n = _put(out, n, shift, _mix(word, following))
    size = k + 1 - t0
    for i in range(1, 8):
        ending = _string(lower, max(t0, k + 1 - i), k + 1)
        n = _put(out, n, shift, _mix(ending, size > i))
        if i > 1:
            n = _put(out, n, shift, _mix(ending, following))
            n = _put(out, n, shift, _mix(ending, previous))
            n = _put(out, n, shift, _mix(ending, shape))
    for i in range(1, 5):
        n = _put(out, n, shift, _mix(_string(lower, t0, min(k + 1, t0 + i)), size > i))
    return n


@numba.njit(**HELPER)
def _score(weights, features, n):
    total = np.float32(0)
    for i in range(n):
        total += weights[features[i]]
    return total


@numba.njit(**KERNEL)
def split(characters, stop, models, thresholds, joined, spaces, longest, ends, multiword):
    """Find the tokens and sentences of a paragraph or a piece of it.

    Args:
        characters: of the text.
        stop: characters from here on are only looked at; if the paragraph is complete, their number.
        models: weights of the three models.
        thresholds: scores above which they say yes.
        joined: (kinds, kinds) whether no token ends between characters of these kinds.
        spaces: whether a token may have a space in it.
        longest: characters after which a token is cut, and tokens after which a sentence is cut.
        ends: is filled with what ends at each character.
        multiword: is filled with whether each token is a multiword token, at its last character.
    """
    _, _, kind, gap = characters
    longest_token, longest_sentence = longest
    features = np.empty(MOST, np.int64)
    starts = np.empty(longest_sentence, np.int64)
    shifts = [_shift(weights) for weights in models]
    tokens, end = 0, len(kind)
    for k in range(stop):
        if tokens == 0:
            starts[0] = chunk = k
            tokens = 1
        elif gap[k]:
            chunk = k
        token, is_last = starts[tokens - 1], k + 1 == end
        if not is_last:
            if (gap[k + 1] == 0 or (spaces and gap[k + 1] == 1)) and k + 1 - token < longest_token:
                if joined[kind[k], kind[k + 1]]:
                    continue
                n = token_features(characters, end, token, chunk, k, shifts[0], features)
                if _score(models[0], features, n) <= thresholds[0]:
                    continue
            n = sentence_features(characters, end, starts, tokens, k, shifts[1], features)
            is_last = tokens == longest_sentence or _score(models[1], features, n) > thresholds[1]
        n = multiword_features(characters, end, starts, tokens, k, shifts[2], features)
        multiword[k] = _score(models[2], features, n) > thresholds[2]
        ends[k] = SENTENCE if is_last else TOKEN
        if is_last:
            tokens = 0
        else:
            starts[tokens] = k + 1
            tokens += 1


@numba.njit(**HELPER)
def _shift(weights):
    """Return the shift that turns a hash of 64 bits into an index of a table, whose size is a power of two."""
    shift = np.uint64(64)
    for _ in range(63):
        if (len(weights) >> np.int64(np.uint64(64) - shift)) > 1:
            shift -= np.uint64(1)
    return shift


@numba.njit(**KERNEL)
def learn(characters, known, joined, spaces, order, tables, epoch, rate):
    """Improve the three models by going once over sentences with known tokens: logistic loss, AdaGrad.

    Args:
        characters: of the text.
        known: (S,) the end of the paragraph that each sentence is in; (S + 1,) first characters of sentences; what ends
            at each character; whether a multiword token ends at each character.
        joined: as in `split`.
        spaces: likewise.
        order: (S,) in which sentences are taken.
        tables: for each of the three models weights, sums of squared gradients, and sums of changes of weights times
            the epoch, by which weights are averaged over epochs.
        epoch: number of this epoch.
        rate: learning rate.
    """
    _, lower, kind, gap = characters
    paragraphs, sentences, ends, multiword = known
    features = np.empty(MOST, np.int64)
    starts = np.empty(len(lower) + 1, np.int64)
    shifts = [_shift(weights) for weights, _, _ in tables]
    for s in order:
        end = paragraphs[s]
        starts[0] = chunk = sentences[s]
        tokens = 1
        for k in range(sentences[s], sentences[s + 1]):
            if gap[k]:
                chunk = k
            inside = k + 1 < end and (gap[k + 1] == 0 or (spaces and gap[k + 1] == 1))
            if inside and not joined[kind[k], kind[k + 1]]:
                n = token_features(characters, end, starts[tokens - 1], chunk, k, shifts[0], features)
                _improve(tables[0], features, n, ends[k] != INSIDE, epoch, rate)
            if ends[k] == INSIDE:
                continue
            if k + 1 < end:
                n = sentence_features(characters, end, starts, tokens, k, shifts[1], features)
                _improve(tables[1], features, n, ends[k] == SENTENCE, epoch, rate)
            n = multiword_features(characters, end, starts, tokens, k, shifts[2], features)
            _improve(tables[2], features, n, multiword[k] > 0, epoch, rate)
            starts[tokens] = k + 1
            tokens += 1


@numba.njit(**HELPER)
def _improve(table, features, n, positive, epoch, rate):
    """Take one step of AdaGrad."""
    weights, squares, sums = table
    error = np.float32(1) / (np.float32(1) + np.exp(-_score(weights, features, n))) - np.float32(positive)
    for i in range(n):
        feature = features[i]
        squares[feature] += error * error
        change = rate * error / np.sqrt(squares[feature] + np.float32(1e-6))
        weights[feature] -= change
        sums[feature] += np.float32(epoch) * change
