"""Convert e-mails to Markdown: the subject as heading, sender, recipients, date and text."""

from email import policy
from email.errors import MessageError
from email.message import EmailMessage
from email.parser import BytesParser
from typing import cast

from ragsmith.datasets.ingest.readers import markup
from ragsmith.datasets.ingest.readers.part import FilePart, package_versions, reader
from ragsmith.text.files import FORBIDDEN, TextError

HEADER_FIELDS = ("From", "To", "Cc", "Date")


@reader("e-mail", suffixes=(".eml",))
def read_mail(data: bytes, name: str) -> tuple[FilePart, ...]:
    """E-mails: subject, sender, recipients, date and text."""
    try:
        message = BytesParser(policy=policy.default).parsebytes(data)
        subject = _one_line(message["Subject"])
        head = [f"{field}: {_one_line(message[field])}" for field in HEADER_FIELDS if message[field]]
        body = message.get_body(preferencelist=("plain", "html"))
        text = "" if body is None else _decode_body(cast(EmailMessage, body))
        attached = [part.get_filename() or part.get_content_type() for part in message.iter_attachments()]
    except (MessageError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise TextError(f"is not an e-mail that can be read ({type(error).__name__}); save it again") from error
    if not head and not subject:
        raise TextError("has none of the fields of an e-mail; rename it .txt if it is text")
    blocks = [f"# {subject}" if subject else "", "\n".join(head), text.strip()]
    notes = tuple(f"the attachment {_one_line(file)!r} was left out; save it next to the e-mail" for file in attached)
    return (FilePart("\n\n".join(block for block in blocks if block) + "\n", title=subject or None, notes=notes),)


def _decode_body(part: EmailMessage) -> str:
    content = str(part.get_content()).replace("\r\n", "\n").replace("\r", "\n")
    if part.get_content_type() == "text/html":
        package_versions(markup.PACKAGES)  # raises MissingExtra
        return markup.page_to_markdown(content)[0]
    return FORBIDDEN.sub("", content)


def _one_line(value: object) -> str:
    return " ".join(FORBIDDEN.sub("", str(value or "")).split())
