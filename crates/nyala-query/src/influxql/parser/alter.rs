//! ALTER MEASUREMENT, which InfluxDB does not have.

use crate::influxql::alter::{AlterMeasurement, MeasurementAlteration};
use crate::influxql::expr::DataType;
use crate::influxql::statement::Statement;
use crate::influxql::token::Kind;

use super::{Parser, Result};

impl Parser<'_> {
    /// What follows `ALTER MEASUREMENT`.
    pub(super) fn alter_measurement(&mut self) -> Result<Statement> {
        let measurement = self.measurement()?;
        let token = self.next();
        let alteration = match token.kind {
            Kind::Alter => {
                self.expect(Kind::Field)?;
                let field = self.identifier()?;
                self.word("TYPE")?;
                MeasurementAlteration::FieldType { field, data_type: self.field_type()? }
            }
            Kind::Drop => {
                self.word("ALIAS")?;
                MeasurementAlteration::DropAlias(self.identifier()?)
            }
            _ if token.is_word("ADD") => {
                self.word("ALIAS")?;
                MeasurementAlteration::AddAlias(self.identifier()?)
            }
            _ if token.is_word("RENAME") => self.renaming()?,
            _ => return Err(self.unexpected(&token, &["RENAME", "ALTER", "ADD", "DROP"])),
        };
        Ok(Statement::AlterMeasurement(AlterMeasurement { measurement, alteration }))
    }

    /// What follows `RENAME`.
    fn renaming(&mut self) -> Result<MeasurementAlteration> {
        let token = self.next();
        match token.kind {
            Kind::To => {
                let to = self.identifier()?;
                let keeps_alias = self.take_word("KEEP");
                if keeps_alias {
                    self.word("ALIAS")?;
                }
                Ok(MeasurementAlteration::Rename { to, keeps_alias })
            }
            Kind::Field => {
                let (from, to) = self.old_and_new()?;
                Ok(MeasurementAlteration::RenameField { from, to })
            }
            Kind::Tag => {
                let (from, to) = self.old_and_new()?;
                Ok(MeasurementAlteration::RenameTag { from, to })
            }
            _ => Err(self.unexpected(&token, &["TO", "FIELD", "TAG"])),
        }
    }

    fn field_type(&mut self) -> Result<DataType> {
        use DataType::{Boolean, Float, Integer, String, Unsigned};
        const TYPES: [DataType; 5] = [Float, Integer, String, Boolean, Unsigned];
        let token = self.next();
        let found = TYPES.into_iter().find(|known| token.is_word(known.as_str()));
        found.ok_or_else(|| self.unexpected(&token, &TYPES.map(DataType::as_str)))
    }

    /// `old TO new`.
    fn old_and_new(&mut self) -> Result<(String, String)> {
        let from = self.identifier()?;
        self.expect(Kind::To)?;
        Ok((from, self.identifier()?))
    }

    /// A word that is no keyword.
    fn word(&mut self, word: &str) -> Result<()> {
        let token = self.next();
        match token.is_word(word) {
            true => Ok(()),
            false => Err(self.unexpected(&token, &[word])),
        }
    }
}
