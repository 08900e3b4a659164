from arbora.data.batch import batch_of
from arbora.data.conll import Sentence
from arbora.data.vocabulary import Vocabulary
from arbora.model.tensors import to_tensors


def test_arrays_become_tensors_and_words_stay(sentences: list[Sentence], vocabulary: Vocabulary) -> None:
    batch = batch_of(sentences, vocabulary)
    tensors, elsewhere = to_tensors(batch), to_tensors(batch, "meta")
    assert tensors.heads.tolist() == batch.heads.tolist()
    assert elsewhere.characters.device.type == "meta"
    assert elsewhere.is_word.shape == batch.is_word.shape
    assert elsewhere.forms == [sentence.form for sentence in sentences]
